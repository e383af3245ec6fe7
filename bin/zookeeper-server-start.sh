#!/usr/bin/env bash
# There is no ZooKeeper to start: every node is one.
cat <<'TEXT'
ZooKeeper is built in: every node serves its protocol, by default on port 2181, and keeps its data with the rest.
Start a node with bin/kafka-server-start.sh config/server.properties; zookeeper.listeners there says where.
TEXT
