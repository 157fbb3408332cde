// The DataSet programs of data_sets_beside_flink.py on Flink's local cluster: a line of input is a program, a line of output its seconds.

import java.lang.management.ManagementFactory;
import java.util.Scanner;
import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.DataSet;
import org.apache.flink.api.java.ExecutionEnvironment;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.fs.FileSystem;

public class FlinkDataSets {
    static long processor() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    static DataSet<Tuple2<Long, Long>> rows(ExecutionEnvironment env, long count, long keys, long values) {
        return env.generateSequence(0, count - 1)
                .map(i -> Tuple2.of(i * 7919 % keys, i % values))
                .returns(Types.TUPLE(Types.LONG, Types.LONG));
    }

    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.setString("taskmanager.memory.managed.size", "768m");
        settings.setString("taskmanager.memory.network.min", "128m");
        settings.setString("taskmanager.memory.network.max", "128m");
        settings.setString("taskmanager.numberOfTaskSlots", "2");
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {  // "sum 1000000 100000 to/a/file" or "join 1000000 100000 to/a/file"
            String[] asked = lines.nextLine().split(" ");
            long count = Long.parseLong(asked[1]), keys = Long.parseLong(asked[2]);
            ExecutionEnvironment env = ExecutionEnvironment.createLocalEnvironment(settings);
            env.setParallelism(2);
            env.getConfig().enableObjectReuse();
            DataSet<Tuple2<Long, Long>> result = rows(env, count, keys, 1000);
            if (asked[0].equals("join")) {
                DataSet<Tuple2<Long, Long>> groups = rows(env, keys, keys, 1000);
                result = result.join(groups).where(0).equalTo(0).projectSecond(1).projectFirst(1);
            }
            result.groupBy(0).sum(1).writeAsCsv(asked[3], FileSystem.WriteMode.OVERWRITE);
            long before = processor();
            JobExecutionResult ran = env.execute();
            double worked = (processor() - before) / 1e9;
            System.out.println("seconds " + ran.getNetRuntime() / 1e3 + " " + worked);
        }
    }
}
