package cli

// shapes is what internal records look like, as Apache Kafka 4.4.0 writes them, log by log.
//
// A line is: log, type, key or value where there are both, and name; versions; the first flexible version (KIP-482), "-"
// for none; fields in the order in which JSON shows them, which is that of the bytes but for tagged fields. A field is its
// name, ":" and versions if it is not in all of them, "@" and a tag if it is a tagged one, and its type, with "[]" before
// it for an array and "?" for a struct that can be null.
const shapes = `
metadata.0.REGISTER_BROKER_RECORD 0-4 0 brokerId int32, isMigratingZkBroker:2+ bool, incarnationId uuid, brokerEpoch int64, endPoints []{name string, host string, port uint16, securityProtocol int16}, features []{name string, minSupportedVersion int16, maxSupportedVersion int16}, rack string, fenced bool, inControlledShutdown:1+ bool, logDirs:3+@0 []uuid, cordonedLogDirs:4+@1 []uuid
metadata.1.UNREGISTER_BROKER_RECORD 0-0 0 brokerId int32, brokerEpoch int64
metadata.2.TOPIC_RECORD 0-0 0 name string, topicId uuid
metadata.3.PARTITION_RECORD 0-2 0 partitionId int32, topicId uuid, replicas []int32, isr []int32, removingReplicas []int32, addingReplicas []int32, leader int32, leaderRecoveryState@0 int8, leaderEpoch int32, partitionEpoch int32, directories:1+ []uuid, eligibleLeaderReplicas:2+@1 []int32, lastKnownElr:2+@2 []int32
metadata.4.CONFIG_RECORD 0-0 0 resourceType int8, resourceName string, name string, value string
metadata.5.PARTITION_CHANGE_RECORD 0-2 0 partitionId int32, topicId uuid, isr@0 []int32, leader@1 int32, replicas@2 []int32, removingReplicas@3 []int32, addingReplicas@4 []int32, leaderRecoveryState@5 int8, directories:1+@8 []uuid, eligibleLeaderReplicas:2+@6 []int32, lastKnownElr:2+@7 []int32
metadata.7.FENCE_BROKER_RECORD 0-0 0 id int32, epoch int64
metadata.8.UNFENCE_BROKER_RECORD 0-0 0 id int32, epoch int64
metadata.9.REMOVE_TOPIC_RECORD 0-0 0 topicId uuid
metadata.10.DELEGATION_TOKEN_RECORD 0-0 0 owner string, requester string, renewers []string, issueTimestamp int64, maxTimestamp int64, expirationTimestamp int64, tokenId string
metadata.11.USER_SCRAM_CREDENTIAL_RECORD 0-0 0 name string, mechanism int8, salt bytes, storedKey bytes, serverKey bytes, iterations int32
metadata.12.FEATURE_LEVEL_RECORD 0-0 0 name string, featureLevel int16
metadata.14.CLIENT_QUOTA_RECORD 0-0 0 entity []{entityType string, entityName string}, key string, value float64, remove bool
metadata.15.PRODUCER_IDS_RECORD 0-0 0 brokerId int32, brokerEpoch int64, nextProducerId int64
metadata.17.BROKER_REGISTRATION_CHANGE_RECORD 0-3 0 brokerId int32, brokerEpoch int64, fenced@0 int8, inControlledShutdown:1+@1 int8, logDirs:2+@2 []uuid, cordonedLogDirs:3+@3 []uuid
metadata.18.ACCESS_CONTROL_ENTRY_RECORD 0-0 0 id uuid, resourceType int8, resourceName string, patternType int8, principal string, host string, operation int8, permissionType int8
metadata.19.REMOVE_ACCESS_CONTROL_ENTRY_RECORD 0-0 0 id uuid
metadata.20.NO_OP_RECORD 0-0 0
metadata.21.ZK_MIGRATION_STATE_RECORD 0-0 0 zkMigrationState int8
metadata.22.REMOVE_USER_SCRAM_CREDENTIAL_RECORD 0-0 0 name string, mechanism int8
metadata.23.BEGIN_TRANSACTION_RECORD 0-0 0 name@0 string
metadata.24.END_TRANSACTION_RECORD 0-0 0
metadata.25.ABORT_TRANSACTION_RECORD 0-0 0 reason@0 string
metadata.26.REMOVE_DELEGATION_TOKEN_RECORD 0-0 0 tokenId string
metadata.27.REGISTER_CONTROLLER_RECORD 0-0 0 controllerId int32, incarnationId uuid, zkMigrationReady bool, endPoints []{name string, host string, port uint16, securityProtocol int16}, features []{name string, minSupportedVersion int16, maxSupportedVersion int16}
metadata.28.CLEAR_ELR_RECORD 0-0 0 topicName string
metadata.29.UNREGISTER_CONTROLLER_RECORD 0-0 0 controllerId int32
group.0.key.LEGACY_OFFSET_COMMIT 0-0 - group string, topic string, partition int32
group.0.value.LEGACY_OFFSET_COMMIT 0-0 - offset int64, metadata string, commitTimestamp int64
group.1.key.OFFSET_COMMIT 0-0 - group string, topic string, partition int32
group.1.value.OFFSET_COMMIT 0-4 4 offset int64, leaderEpoch:3+ int32, metadata string, commitTimestamp int64, expireTimestamp:1-1 int64, topicId:4+@0 uuid
group.2.key.GROUP_METADATA 0-0 - group string
group.2.value.GROUP_METADATA 0-4 4 protocolType string, generation int32, protocol string, leader string, currentStateTimestamp:2+ int64, members []{memberId string, groupInstanceId:3+ string, clientId string, clientHost string, rebalanceTimeout:1+ int32, sessionTimeout int32, subscription bytes, assignment bytes}
group.3.key.CONSUMER_GROUP_METADATA 0-0 - groupId string
group.3.value.CONSUMER_GROUP_METADATA 0-0 0 epoch int32, metadataHash@0 int64
group.4.key.CONSUMER_GROUP_PARTITION_METADATA 0-0 - groupId string
group.4.value.CONSUMER_GROUP_PARTITION_METADATA 0-0 0 topics []{topicId uuid, topicName string, numPartitions int32, partitionMetadata []{partition int32, racks []string}}
group.5.key.CONSUMER_GROUP_MEMBER_METADATA 0-0 - groupId string, memberId string
group.5.value.CONSUMER_GROUP_MEMBER_METADATA 0-0 0 instanceId string, rackId string, clientId string, clientHost string, subscribedTopicNames []string, subscribedTopicRegex string, rebalanceTimeoutMs int32, serverAssignor string, classicMemberMetadata@0 ?{sessionTimeoutMs int32, supportedProtocols []{name string, metadata bytes}}
group.6.key.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA 0-0 - groupId string
group.6.value.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA 0-0 0 assignmentEpoch int32, assignmentTimestamp@0 int64
group.7.key.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER 0-0 - groupId string, memberId string
group.7.value.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER 0-0 0 topicPartitions []{topicId uuid, partitions []int32}
group.8.key.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT 0-0 - groupId string, memberId string
group.8.value.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT 0-0 0 memberEpoch int32, previousMemberEpoch int32, state int8, assignedPartitions []{topicId uuid, partitions []int32, assignmentEpochs@0 []int32}, partitionsPendingRevocation []{topicId uuid, partitions []int32, assignmentEpochs@0 []int32}
group.10.key.SHARE_GROUP_MEMBER_METADATA 0-0 - groupId string, memberId string
group.10.value.SHARE_GROUP_MEMBER_METADATA 0-0 0 rackId string, clientId string, clientHost string, subscribedTopicNames []string
group.11.key.SHARE_GROUP_METADATA 0-0 - groupId string
group.11.value.SHARE_GROUP_METADATA 0-0 0 epoch int32, metadataHash int64
group.12.key.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA 0-0 - groupId string
group.12.value.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA 0-0 0 assignmentEpoch int32, assignmentTimestamp@0 int64
group.13.key.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER 0-0 - groupId string, memberId string
group.13.value.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER 0-0 0 topicPartitions []{topicId uuid, partitions []int32}
group.14.key.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT 0-0 - groupId string, memberId string
group.14.value.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT 0-0 0 memberEpoch int32, previousMemberEpoch int32, state int8, assignedPartitions []{topicId uuid, partitions []int32}
group.15.key.SHARE_GROUP_STATE_PARTITION_METADATA 0-0 - groupId string
group.15.value.SHARE_GROUP_STATE_PARTITION_METADATA 0-0 0 initializingTopics []{topicId uuid, topicName string, partitions []int32}, initializedTopics []{topicId uuid, topicName string, partitions []int32}, deletingTopics []{topicId uuid, topicName string}
group.16.key.CONSUMER_GROUP_REGULAR_EXPRESSION 0-0 - groupId string, regularExpression string
group.16.value.CONSUMER_GROUP_REGULAR_EXPRESSION 0-0 0 topics []string, version int64, timestamp int64
group.17.key.STREAMS_GROUP_METADATA 0-0 - groupId string
group.17.value.STREAMS_GROUP_METADATA 0-0 0 epoch int32, metadataHash int64, validatedTopologyEpoch@0 int32, lastAssignmentConfigs@1 []{key string, value string}, storedDescriptionTopologyEpoch@2 int32, failedDescriptionTopologyEpoch@3 int32
group.19.key.STREAMS_GROUP_MEMBER_METADATA 0-0 - groupId string, memberId string
group.19.value.STREAMS_GROUP_MEMBER_METADATA 0-0 0 instanceId string, rackId string, clientId string, clientHost string, rebalanceTimeoutMs int32, topologyEpoch int32, processId string, userEndpoint ?{host string, port uint16}, clientTags []{key string, value string}
group.20.key.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA 0-0 - groupId string
group.20.value.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA 0-0 0 assignmentEpoch int32, assignmentTimestamp@0 int64
group.21.key.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER 0-0 - groupId string, memberId string
group.21.value.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER 0-0 0 activeTasks []{subtopologyId string, partitions []int32}, standbyTasks []{subtopologyId string, partitions []int32}, warmupTasks []{subtopologyId string, partitions []int32}
group.22.key.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT 0-0 - groupId string, memberId string
group.22.value.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT 0-0 0 memberEpoch int32, previousMemberEpoch int32, state int8, activeTasks []{subtopologyId string, partitions []int32, assignmentEpochs@0 []int32}, standbyTasks []{subtopologyId string, partitions []int32, assignmentEpochs@0 []int32}, warmupTasks []{subtopologyId string, partitions []int32, assignmentEpochs@0 []int32}, activeTasksPendingRevocation []{subtopologyId string, partitions []int32, assignmentEpochs@0 []int32}, standbyTasksPendingRevocation []{subtopologyId string, partitions []int32, assignmentEpochs@0 []int32}, warmupTasksPendingRevocation []{subtopologyId string, partitions []int32, assignmentEpochs@0 []int32}
group.23.key.STREAMS_GROUP_TOPOLOGY 0-0 - groupId string
group.23.value.STREAMS_GROUP_TOPOLOGY 0-0 0 epoch int32, subtopologies []{subtopologyId string, sourceTopics []string, sourceTopicRegex []string, stateChangelogTopics []{name string, partitions int32, replicationFactor int16, topicConfigs []{key string, value string}}, repartitionSinkTopics []string, repartitionSourceTopics []{name string, partitions int32, replicationFactor int16, topicConfigs []{key string, value string}}, copartitionGroups []{sourceTopics []int16, sourceTopicRegex []int16, repartitionSourceTopics []int16}}
transaction.0.key.TRANSACTION_LOG 0-0 - transactionalId string
transaction.0.value.TRANSACTION_LOG 0-1 1 producerId int64, previousProducerId:1+@0 int64, nextProducerId:1+@1 int64, producerEpoch int16, nextProducerEpoch:1+@3 int16, transactionTimeoutMs int32, transactionStatus int8, transactionPartitions []{topic string, partitionIds []int32}, transactionLastUpdateTimestampMs int64, transactionStartTimestampMs int64, clientTransactionVersion:1+@2 int16
share.0.key.SHARE_SNAPSHOT 0-0 - groupId string, topicId uuid, partition int32
share.0.value.SHARE_SNAPSHOT 0-0 0 snapshotEpoch int32, stateEpoch int32, leaderEpoch int32, startOffset int64, deliveryCompleteCount@0 int32, createTimestamp int64, writeTimestamp int64, stateBatches []{firstOffset int64, lastOffset int64, deliveryState int8, deliveryCount int16}
share.1.key.SHARE_UPDATE 0-0 - groupId string, topicId uuid, partition int32
share.1.value.SHARE_UPDATE 0-0 0 snapshotEpoch int32, leaderEpoch int32, startOffset int64, deliveryCompleteCount@0 int32, stateBatches []{firstOffset int64, lastOffset int64, deliveryState int8, deliveryCount int16}
control.2.LeaderChange: 0-1 0 version int16, leaderId int32, voters []{voterId int32, voterDirectoryId:1+ uuid}, grantingVoters []{voterId int32, voterDirectoryId:1+ uuid}
control.3.SnapshotHeader 0-0 0 version int16, lastContainedLogTimestamp int64
control.4.SnapshotFooter 0-0 0 version int16
control.5.KRaftVersion 0-0 0 version int16, kRaftVersion int16
control.6.KRaftVoters 0-0 0 version int16, voters []{voterId int32, voterDirectoryId uuid, endpoints []{name string, host string, port uint16}, kRaftVersionFeature {minSupportedVersion int16, maxSupportedVersion int16}}
consumer.subscription.ConsumerProtocolSubscription 0-3 - topics []string, userData bytes, ownedPartitions:1+ []{topic string, partitions []int32}, generationId:2+ int32, rackId:3+ string
consumer.assignment.ConsumerProtocolAssignment 0-3 - assignedPartitions []{topic string, partitions []int32}, userData bytes
`
