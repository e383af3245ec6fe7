import java.lang.reflect.Method;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;

/** Reads a partition with the Java consumer of whatever release is on the class path (0.9 on), and prints its records. */
public class Reader {
    public static void main(String[] args) throws Exception {
        long end = Long.parseLong(args[3]);
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("client.id", "reader-" + args[2]);
        p.put("group.id", "readers-" + args[2]);
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "earliest");
        p.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        p.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<byte[], byte[]>(p);
        List<String> topics = Collections.singletonList(args[1]);
        try { // since 0.10
            KafkaConsumer.class.getMethod("subscribe", Collection.class).invoke(consumer, topics);
        } catch (NoSuchMethodException e) {
            KafkaConsumer.class.getMethod("subscribe", List.class).invoke(consumer, topics);
        }
        long next = 0, deadline = System.currentTimeMillis() + 60000;
        while (next < end) {
            if (System.currentTimeMillis() > deadline) {
                throw new Exception("read up to " + next + " of " + end);
            }
            for (Object o : poll(consumer)) {
                @SuppressWarnings("unchecked")
                ConsumerRecord<byte[], byte[]> r = (ConsumerRecord<byte[], byte[]>) o;
                System.out.println(r.offset() + "\t" + timestamp(r) + "\t" + text(r.key()) + "\t" + text(r.value()) + "\t" + headers(r));
                next = r.offset() + 1;
            }
        }
        consumer.commitSync();
        OffsetAndMetadata kept = committed(consumer, new TopicPartition(args[1], 0));
        if (kept == null || kept.offset() != end) {
            throw new Exception("committed " + kept + " and not " + end);
        }
        consumer.close();
    }

    static Iterable<?> poll(KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        try { // since 2.0
            Class<?> duration = Class.forName("java.time.Duration");
            return (Iterable<?>) KafkaConsumer.class.getMethod("poll", duration).invoke(consumer, duration.getMethod("ofMillis", long.class).invoke(null, 500L));
        } catch (NoSuchMethodException e) {
            return (Iterable<?>) KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, 500L);
        }
    }

    static OffsetAndMetadata committed(KafkaConsumer<byte[], byte[]> consumer, TopicPartition tp) throws Exception {
        try { // until 3.9
            return (OffsetAndMetadata) KafkaConsumer.class.getMethod("committed", TopicPartition.class).invoke(consumer, tp);
        } catch (NoSuchMethodException e) {
            Map<?, ?> all = (Map<?, ?>) KafkaConsumer.class.getMethod("committed", Set.class).invoke(consumer, Collections.singleton(tp));
            return (OffsetAndMetadata) all.get(tp);
        }
    }

    static String timestamp(ConsumerRecord<byte[], byte[]> r) throws Exception {
        try { // since 0.10
            return "" + ConsumerRecord.class.getMethod("timestamp").invoke(r);
        } catch (NoSuchMethodException e) {
            return "";
        }
    }

    static String headers(ConsumerRecord<byte[], byte[]> r) throws Exception {
        Method m;
        try { // since 0.11
            m = ConsumerRecord.class.getMethod("headers");
        } catch (NoSuchMethodException e) {
            return "";
        }
        StringBuilder all = new StringBuilder();
        for (Object h : (Iterable<?>) m.invoke(r)) {
            Class<?> header = Class.forName("org.apache.kafka.common.header.Header");
            all.append(header.getMethod("key").invoke(h)).append("=").append(new String((byte[]) header.getMethod("value").invoke(h), "UTF-8"));
        }
        return all.toString();
    }

    static String text(byte[] b) throws Exception {
        return b == null ? "null" : "\"" + new String(b, "UTF-8") + "\"";
    }
}
