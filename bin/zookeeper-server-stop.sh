#!/usr/bin/env bash
# There is no ZooKeeper to stop: it ends with its node.
echo "ZooKeeper is built in: it stops with its node, by bin/kafka-server-stop.sh."
