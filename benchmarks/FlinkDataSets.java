// The DataSet programs of data_sets_beside_flink.py on Flink's local cluster: a line of input is a program, a line of output its seconds.

import java.lang.management.ManagementFactory;
import java.util.Scanner;
import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.DataSet;
import org.apache.flink.api.java.ExecutionEnvironment;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.functions.FlatJoinFunction;
import org.apache.flink.api.common.functions.JoinFunction;
import org.apache.flink.api.java.operators.DeltaIteration;
import org.apache.flink.api.java.operators.IterativeDataSet;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
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

    static long mixed(long z) {
        z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L;
        z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL;
        return (z ^ (z >>> 31)) >>> 1;
    }

    static DataSet<Tuple2<Long, Long>> edges(ExecutionEnvironment env, long count, long vertices) {
        return env.generateSequence(0, count - 1)
                .map(i -> Tuple2.of(mixed(2 * i + 1) % vertices, mixed(2 * i + 2) % vertices))
                .returns(Types.TUPLE(Types.LONG, Types.LONG));
    }

    static DataSet<Tuple2<Long, Long>> components(ExecutionEnvironment env, long count, long vertices) {
        DataSet<Tuple2<Long, Long>> oneWay = edges(env, count, vertices);
        DataSet<Tuple2<Long, Long>> both = oneWay.union(oneWay.<Tuple2<Long, Long>>project(1, 0));
        DataSet<Tuple2<Long, Long>> all = env.generateSequence(0, vertices - 1)
                .map(v -> Tuple2.of(v, v)).returns(Types.TUPLE(Types.LONG, Types.LONG));
        DeltaIteration<Tuple2<Long, Long>, Tuple2<Long, Long>> loop = all.iterateDelta(all, 100, 0);
        DataSet<Tuple2<Long, Long>> least = loop.getWorkset().join(both).where(0).equalTo(0)
                .<Tuple2<Long, Long>>projectSecond(1).<Tuple2<Long, Long>>projectFirst(1).groupBy(0).min(1);
        DataSet<Tuple2<Long, Long>> changed = least.join(loop.getSolutionSet()).where(0).equalTo(0)
                .with((FlatJoinFunction<Tuple2<Long, Long>, Tuple2<Long, Long>, Tuple2<Long, Long>>) (a, b, out) -> {
                    if (a.f1 < b.f1) {
                        out.collect(a);
                    }
                }).returns(Types.TUPLE(Types.LONG, Types.LONG));
        return loop.closeWith(changed, changed);
    }

    static DataSet<Tuple2<Long, Double>> ranks(ExecutionEnvironment env, long count, long vertices) {
        DataSet<Tuple2<Long, Long>> edges = edges(env, count, vertices);
        DataSet<Tuple2<Long, Long>> degrees = edges.map(e -> Tuple2.of(e.f0, 1L))
                .returns(Types.TUPLE(Types.LONG, Types.LONG)).groupBy(0).sum(1);
        DataSet<Tuple3<Long, Long, Long>> links = edges.join(degrees).where(0).equalTo(0)
                .<Tuple3<Long, Long, Long>>projectFirst(0, 1).<Tuple3<Long, Long, Long>>projectSecond(1);
        DataSet<Long> all = env.generateSequence(0, vertices - 1);
        double rest = 0.15 / vertices;
        DataSet<Tuple2<Long, Double>> least = all.map(v -> Tuple2.of(v, rest)).returns(Types.TUPLE(Types.LONG, Types.DOUBLE));
        IterativeDataSet<Tuple2<Long, Double>> loop = all.map(v -> Tuple2.of(v, 1.0 / vertices))
                .returns(Types.TUPLE(Types.LONG, Types.DOUBLE)).iterate(10);
        DataSet<Tuple2<Long, Double>> given = loop.join(links).where(0).equalTo(0)
                .with((JoinFunction<Tuple2<Long, Double>, Tuple3<Long, Long, Long>, Tuple2<Long, Double>>)
                        (page, link) -> Tuple2.of(link.f1, 0.85 * page.f1 / link.f2))
                .returns(Types.TUPLE(Types.LONG, Types.DOUBLE));
        return loop.closeWith(given.union(least).groupBy(0).sum(1));
    }

    static DataSet<Tuple2<String, Long>> words(ExecutionEnvironment env, long count, long words) {
        return env.generateSequence(0, count - 1)
                .map(line -> {
                    StringBuilder text = new StringBuilder();
                    for (long i = 10 * line; i < 10 * line + 10; i++) {
                        text.append('w').append(mixed(i) % words).append(' ');
                    }
                    return text.toString();
                }).returns(Types.STRING)
                .flatMap((FlatMapFunction<String, Tuple2<String, Long>>) (line, out) -> {
                    for (String word : line.split(" ")) {
                        out.collect(Tuple2.of(word, 1L));
                    }
                }).returns(Types.TUPLE(Types.STRING, Types.LONG)).groupBy(0).sum(1);
    }

    static DataSet<?> program(ExecutionEnvironment env, String name, long count, long keys) {
        switch (name) {
            case "components":
                return components(env, count, keys);
            case "ranks":
                return ranks(env, count, keys);
            case "words":
                return words(env, count, keys);
            default:
                DataSet<Tuple2<Long, Long>> result = rows(env, count, keys, 1000);
                if (name.equals("join")) {
                    DataSet<Tuple2<Long, Long>> groups = rows(env, keys, keys, 1000);
                    result = result.join(groups).where(0).equalTo(0).projectSecond(1).projectFirst(1);
                }
                return result.groupBy(0).sum(1);
        }
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
            program(env, asked[0], count, keys).writeAsCsv(asked[3], FileSystem.WriteMode.OVERWRITE);
            long before = processor();
            JobExecutionResult ran = env.execute();
            double worked = (processor() - before) / 1e9;
            System.out.println("seconds " + ran.getNetRuntime() / 1e3 + " " + worked);
        }
    }
}
