import java.util.*;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.*;

/** Writes records with the Java producer of whatever release is on the class path, and prints what each was and where it lies. */
public class Writer {
    public static void main(String[] args) throws Exception {
        String address = args[0], topic = args[1], name = args[2];
        int count = Integer.parseInt(args[4]);
        for (String codec : args[3].split(",")) {
            Properties p = new Properties();
            p.put("bootstrap.servers", address);
            p.put("client.id", "writer-" + name);
            p.put("acks", "all");
            p.put("linger.ms", "200");
            p.put("compression.type", codec);
            p.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
            p.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
            KafkaProducer<byte[], byte[]> producer = new KafkaProducer<byte[], byte[]>(p);
            List<String> told = new ArrayList<String>();
            List<Future<RecordMetadata>> sent = new ArrayList<Future<RecordMetadata>>();
            for (int i = 0; i < count; i++) {
                byte[] key = i % 5 == 1 ? null : (name + "-" + codec + "-" + i).getBytes("UTF-8");
                byte[] value = i % 7 == 3 ? null : (name + " wrote this with " + codec + ", again and again and again, number " + i).getBytes("UTF-8");
                long timestamp = System.currentTimeMillis() - 1000L * i;
                ProducerRecord<byte[], byte[]> record;
                String headers = "";
                try { // since 0.10
                    record = ProducerRecord.class.getConstructor(String.class, Integer.class, Long.class, Object.class, Object.class)
                        .newInstance(topic, 0, timestamp, key, value);
                } catch (NoSuchMethodException e) {
                    record = new ProducerRecord<byte[], byte[]>(topic, 0, key, value);
                    timestamp = -1;
                }
                try { // since 0.11
                    Object h = ProducerRecord.class.getMethod("headers").invoke(record);
                    Class.forName("org.apache.kafka.common.header.Headers").getMethod("add", String.class, byte[].class).invoke(h, "number", ("" + i).getBytes("UTF-8"));
                    headers = "number=" + i;
                } catch (NoSuchMethodException e) {
                }
                sent.add(producer.send(record));
                told.add(timestamp + "\t" + text(key) + "\t" + text(value) + "\t" + headers);
            }
            for (int i = 0; i < count; i++) {
                System.out.println(sent.get(i).get().offset() + "\t" + told.get(i));
            }
            producer.close();
        }
    }

    static String text(byte[] b) throws Exception {
        return b == null ? "null" : "\"" + new String(b, "UTF-8") + "\"";
    }
}
