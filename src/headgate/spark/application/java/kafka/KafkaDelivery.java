package headgate;

import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;

import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.sql.Row;

/**
 * A transactional producer that delivers the results of a tick, and the number of the tick, all or nothing.
 *
 * The number is the offset of a consumer group that nobody reads with.
 */
public class KafkaDelivery {

    private final KafkaProducer producer;
    private final AdminClient admin;
    private final String topic;
    private final String name;
    private final TopicPartition marker;
    private long next;

    public KafkaDelivery(Map settings, String topic, String name) throws Exception {
        Map own = new HashMap();
        // a broker that is away is noticed soon, and asked again by a new producer
        own.put("max.block.ms", "20000");
        own.put("delivery.timeout.ms", "30000");
        own.put("request.timeout.ms", "10000");
        own.put("linger.ms", "5");
        // the results of a long tick are one transaction; a new producer ends that of one that was killed
        own.put("transaction.timeout.ms", "600000");
        own.put("compression.type", "lz4");
        own.putAll(settings);
        own.put("transactional.id", name);
        own.put("enable.idempotence", "true");
        Map asking = new HashMap(settings);
        asking.put("default.api.timeout.ms", "20000");
        asking.put("request.timeout.ms", "10000");
        this.topic = topic;
        this.name = name;
        this.marker = new TopicPartition(topic, 0);
        this.producer = new KafkaProducer(own, new ByteArraySerializer(), new ByteArraySerializer());
        this.admin = AdminClient.create(asking);
        try {
            // transactions of a producer of this name before are over then
            producer.initTransactions();
            this.next = committed();
        } catch (Exception error) {
            close();
            throw error;
        }
    }

    private long committed() throws Exception {
        Map found = (Map) admin.listConsumerGroupOffsets(name).partitionsToOffsetAndMetadata().get();
        OffsetAndMetadata offset = (OffsetAndMetadata) found.get(marker);
        return offset == null ? 0L : offset.offset();
    }

    /** The number of the tick after the last one that was delivered. */
    public long delivered() {
        return next;
    }

    /** Deliver rows of key, value and place, and commit with them that this tick is delivered. */
    public void deliver(Iterator rows, long tick) {
        byte[] batch = Long.toString(tick).getBytes(StandardCharsets.UTF_8);
        producer.beginTransaction();
        while (rows.hasNext()) {
            Row row = (Row) rows.next();
            ProducerRecord record = new ProducerRecord(topic, (byte[]) row.get(0), (byte[]) row.get(1));
            record.headers().add("headgate.batch", batch).add("headgate.row", (byte[]) row.get(2));
            producer.send(record);
        }
        Map offsets = Collections.singletonMap(marker, new OffsetAndMetadata(tick + 1));
        producer.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(name));
        producer.commitTransaction();
        next = tick + 1;
    }

    public void close() {
        producer.close(java.time.Duration.ZERO);
        admin.close(java.time.Duration.ZERO);
    }
}
