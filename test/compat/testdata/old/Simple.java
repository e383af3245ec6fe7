import java.nio.ByteBuffer;
import java.util.*;
import kafka.api.FetchRequestBuilder;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.cluster.Broker;
import kafka.common.OffsetMetadataAndError;
import kafka.common.OffsetAndMetadata;
import kafka.common.TopicAndPartition;
import kafka.javaapi.*;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.message.MessageAndOffset;

/** Reads a partition with the SimpleConsumer of Kafka 0.8 to 1.1, a small buffer at a time, and prints its messages. */
public class Simple {
    public static void main(String[] args) throws Exception {
        String[] address = args[0].split(":");
        String topic = args[1];
        int buffer = Integer.parseInt(args[2]);
        TopicAndPartition tp = new TopicAndPartition(topic, 0);
        SimpleConsumer consumer = new SimpleConsumer(address[0], Integer.parseInt(address[1]), 10000, 64 * 1024, "simple");
        TopicMetadata metadata = consumer.send(new TopicMetadataRequest(Collections.singletonList(topic))).topicsMetadata().get(0);
        if (metadata.partitionsMetadata().get(0).leader() == null) {
            throw new Exception("no leader");
        }
        long next = offset(consumer, tp, kafka.api.OffsetRequest.EarliestTime());
        long end = offset(consumer, tp, kafka.api.OffsetRequest.LatestTime());
        while (next < end) {
            FetchResponse response = consumer.fetch(new FetchRequestBuilder().clientId("simple").addFetch(topic, 0, next, buffer).build());
            if (response.hasError()) {
                throw new Exception("error " + response.errorCode(topic, 0) + " at " + next);
            }
            long began = next;
            for (MessageAndOffset m : response.messageSet(topic, 0)) {
                if (m.offset() < next) {
                    continue; // before the one that was asked for, in the same compressed set
                }
                System.out.println(m.offset() + "\t\t" + text(m.message().key()) + "\t" + text(m.message().payload()) + "\t");
                next = m.nextOffset();
            }
            if (next == began) {
                throw new Exception("a buffer of " + buffer + " bytes has no whole message at " + next);
            }
        }
        // Offsets by version 0, which those clients take for ZooKeeper's.
        Map<TopicAndPartition, OffsetAndMetadata> offsets = new HashMap<TopicAndPartition, OffsetAndMetadata>();
        offsets.put(tp, OffsetAndMetadata.apply(next, "kept", -1L));
        OffsetCommitResponse committed = consumer.commitOffsets(new OffsetCommitRequest("simple-group", offsets, 1, "simple", (short) 0));
        if (committed.hasError()) {
            throw new Exception("commit: " + committed.errors());
        }
        OffsetFetchResponse fetched = consumer.fetchOffsets(new OffsetFetchRequest("simple-group", Collections.singletonList(tp), (short) 0, 2, "simple"));
        OffsetMetadataAndError found = fetched.offsets().get(tp);
        if (found.offset() != next) {
            throw new Exception("committed " + next + ", fetched " + found);
        }
        consumer.close();
    }

    static long offset(SimpleConsumer consumer, TopicAndPartition tp, long time) throws Exception {
        Map<TopicAndPartition, PartitionOffsetRequestInfo> info = new HashMap<TopicAndPartition, PartitionOffsetRequestInfo>();
        info.put(tp, new PartitionOffsetRequestInfo(time, 1));
        OffsetResponse response = consumer.getOffsetsBefore(new OffsetRequest(info, kafka.api.OffsetRequest.CurrentVersion(), "simple"));
        if (response.hasError()) {
            throw new Exception("offsets: error " + response.errorCode(tp.topic(), tp.partition()));
        }
        return response.offsets(tp.topic(), tp.partition())[0];
    }

    static String text(ByteBuffer b) throws Exception {
        if (b == null) {
            return "null";
        }
        byte[] bytes = new byte[b.remaining()];
        b.get(bytes);
        return "\"" + new String(bytes, "UTF-8") + "\"";
    }
}
