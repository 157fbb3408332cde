import org.apache.flink.api.common.functions.*;
import org.apache.flink.api.common.io.statistics.BaseStatistics;
import org.apache.flink.api.common.operators.Order;
import org.apache.flink.api.common.operators.base.JoinOperatorBase.JoinHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.DataSet;
import org.apache.flink.api.java.ExecutionEnvironment;
import org.apache.flink.api.java.aggregation.Aggregations;
import org.apache.flink.api.java.io.CollectionInputFormat;
import org.apache.flink.api.java.operators.*;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.*;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.*;
import org.apache.flink.util.Collector;

import java.io.*;
import java.util.*;

/**
 * Runs programs of tests/optimizer/random_programs.py on Flink, and writes down the plan that Flink chose and the rows that came out.
 * A line has programs of one parallelism and mode: they are one job, since a cluster begins with each. A line comes out for each program.
 */
public class FlinkPrograms {
    static final TypeInformation<Tuple3<Long, Long, String>> ROW = Types.TUPLE(Types.LONG, Types.LONG, Types.STRING);
    static final ObjectMapper JSON = new ObjectMapper();

    static Tuple3<Long, Long, String> row(long a, long b, String c) { return Tuple3.of(a, b, c); }

    /** Rows with the statistics that the optimizer is told of them. */
    static class Given extends CollectionInputFormat<Tuple3<Long, Long, String>> {
        final long bytes, count;
        Given(Collection<Tuple3<Long, Long, String>> rows, ExecutionEnvironment env, long bytes, long count) {
            super(rows, ROW.createSerializer(env.getConfig()));
            this.bytes = bytes; this.count = count;
        }
        @Override public BaseStatistics getStatistics(BaseStatistics cached) {
            if (bytes < 0 && count < 0) return null;
            return new BaseStatistics() {
                public long getTotalInputSize() { return bytes < 0 ? SIZE_UNKNOWN : bytes; }
                public long getNumberOfRecords() { return count < 0 ? NUM_RECORDS_UNKNOWN : count; }
                public float getAverageRecordWidth() { return bytes < 0 || count < 0 ? AVG_RECORD_BYTES_UNKNOWN : (float) bytes / count; }
            };
        }
    }

    // --- functions, by name ---------------------------------------------------------------------------------------

    static class Mapper implements MapFunction<Tuple3<Long, Long, String>, Tuple3<Long, Long, String>> {
        final String fn; Mapper(String fn) { this.fn = fn; }
        public Tuple3<Long, Long, String> map(Tuple3<Long, Long, String> v) {
            switch (fn) {
                case "same": return v;
                case "swap": return row(v.f1, v.f0, v.f2);
                case "add_one": return row(v.f0, v.f1 + 1, v.f2);
                case "mod_five": return row(v.f0 % 5, v.f1, v.f2);
                case "tag": return row(v.f0, v.f1, v.f2 + "x");
                default: throw new IllegalArgumentException(fn);
            }
        }
    }
    static class FlatMapper implements FlatMapFunction<Tuple3<Long, Long, String>, Tuple3<Long, Long, String>> {
        final String fn; FlatMapper(String fn) { this.fn = fn; }
        public void flatMap(Tuple3<Long, Long, String> v, Collector<Tuple3<Long, Long, String>> out) {
            switch (fn) {
                case "twice": out.collect(v); out.collect(v); return;
                case "odd_ones": if (v.f1 % 2 != 0) out.collect(v); return;
                case "count_down": for (long i = 0; i < v.f0 % 3; i++) out.collect(row(v.f0, i, v.f2)); return;
                default: throw new IllegalArgumentException(fn);
            }
        }
    }
    static class PartitionMapper implements MapPartitionFunction<Tuple3<Long, Long, String>, Tuple3<Long, Long, String>> {
        public void mapPartition(Iterable<Tuple3<Long, Long, String>> in, Collector<Tuple3<Long, Long, String>> out) { for (Tuple3<Long, Long, String> v : in) out.collect(v); }
    }
    static class Keeps implements FilterFunction<Tuple3<Long, Long, String>> {
        final String fn; Keeps(String fn) { this.fn = fn; }
        public boolean filter(Tuple3<Long, Long, String> v) {
            switch (fn) {
                case "even_key": return v.f0 % 2 == 0;
                case "small_value": return v.f1 < 10;
                default: throw new IllegalArgumentException(fn);
            }
        }
    }
    static String smaller(String a, String b) { return a.compareTo(b) <= 0 ? a : b; }
    /** Keeps the first two fields' smallest and the sum of the second: the same in any order. */
    static class Adds implements ReduceFunction<Tuple3<Long, Long, String>> {
        public Tuple3<Long, Long, String> reduce(Tuple3<Long, Long, String> a, Tuple3<Long, Long, String> b) { return row(Math.min(a.f0, b.f0), a.f1 + b.f1, smaller(a.f2, b.f2)); }
    }
    static class Larger implements ReduceFunction<Tuple3<Long, Long, String>> {
        public Tuple3<Long, Long, String> reduce(Tuple3<Long, Long, String> a, Tuple3<Long, Long, String> b) { return row(Math.max(a.f0, b.f0), Math.max(a.f1, b.f1), smaller(a.f2, b.f2)); }
    }
    /** One row a group: smallest f0, sum of f1, smallest f2; combinable, as its results add up again. */
    static class Group implements GroupReduceFunction<Tuple3<Long, Long, String>, Tuple3<Long, Long, String>> {
        public void reduce(Iterable<Tuple3<Long, Long, String>> in, Collector<Tuple3<Long, Long, String>> out) {
            Tuple3<Long, Long, String> all = null;
            for (Tuple3<Long, Long, String> v : in) all = all == null ? row(v.f0, v.f1, v.f2) : row(Math.min(all.f0, v.f0), all.f1 + v.f1, smaller(all.f2, v.f2));
            if (all != null) out.collect(all);
        }
    }
    static class CombinableGroup extends Group implements GroupCombineFunction<Tuple3<Long, Long, String>, Tuple3<Long, Long, String>> {
        public void combine(Iterable<Tuple3<Long, Long, String>> in, Collector<Tuple3<Long, Long, String>> out) { reduce(in, out); }
    }
    /** Every row of the group with its place in it, which shows the order. */
    static class Numbered implements GroupReduceFunction<Tuple3<Long, Long, String>, Tuple3<Long, Long, String>> {
        public void reduce(Iterable<Tuple3<Long, Long, String>> in, Collector<Tuple3<Long, Long, String>> out) {
            long place = 0;
            for (Tuple3<Long, Long, String> v : in) out.collect(row(v.f0, v.f1 * 100 + place++, v.f2));
        }
    }
    static class Joined implements JoinFunction<Tuple3<Long, Long, String>, Tuple3<Long, Long, String>, Tuple3<Long, Long, String>> {
        public Tuple3<Long, Long, String> join(Tuple3<Long, Long, String> l, Tuple3<Long, Long, String> r) {
            if (l == null) return row(r.f0, -r.f1, "-" + r.f2);
            if (r == null) return row(l.f0, l.f1, l.f2 + "-");
            return row(l.f0, l.f1 + r.f1, l.f2 + r.f2);
        }
    }
    static class Crossed implements CrossFunction<Tuple3<Long, Long, String>, Tuple3<Long, Long, String>, Tuple3<Long, Long, String>> {
        public Tuple3<Long, Long, String> cross(Tuple3<Long, Long, String> l, Tuple3<Long, Long, String> r) { return row(l.f0, l.f1 + r.f1, l.f2 + r.f2); }
    }
    /** Smallest f0 of both sides, rows of the left less rows of the right, smallest text. */
    static class Grouped2 implements CoGroupFunction<Tuple3<Long, Long, String>, Tuple3<Long, Long, String>, Tuple3<Long, Long, String>> {
        public void coGroup(Iterable<Tuple3<Long, Long, String>> ls, Iterable<Tuple3<Long, Long, String>> rs, Collector<Tuple3<Long, Long, String>> out) {
            long n = 0, key = Long.MAX_VALUE; String text = "~";
            for (Tuple3<Long, Long, String> l : ls) { n++; key = Math.min(key, l.f0); text = smaller(text, l.f2); }
            for (Tuple3<Long, Long, String> r : rs) { n -= 1000; key = Math.min(key, r.f0); text = smaller(text, r.f2); }
            out.collect(row(key, n, text));
        }
    }
    /** Adds to f1 how many rows the broadcast set has. */
    static class Broadcasted extends RichMapFunction<Tuple3<Long, Long, String>, Tuple3<Long, Long, String>> {
        transient long n;
        @Override public void open(Configuration c) { n = getRuntimeContext().getBroadcastVariable("set").size(); }
        public Tuple3<Long, Long, String> map(Tuple3<Long, Long, String> v) { return row(v.f0, v.f1 + n, v.f2); }
    }
    static class Modulo implements Partitioner<Long> { public int partition(Long key, int parts) { return (int) Math.floorMod(key, (long) parts); } 
        @Override public boolean equals(Object o) { return o instanceof Modulo; } @Override public int hashCode() { return 7; } }

    // --- steps ----------------------------------------------------------------------------------------------------

    static int[] ints(JsonNode n) { int[] r = new int[n.size()]; for (int i = 0; i < r.length; i++) r[i] = n.get(i).asInt(); return r; }
    static Order order(String s) { return s.equals("desc") ? Order.DESCENDING : Order.ASCENDING; }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static DataSet<Tuple3<Long, Long, String>> step(JsonNode s, Map<String, DataSet<Tuple3<Long, Long, String>>> at) {
        DataSet<Tuple3<Long, Long, String>> a = at.get(s.get("in").get(0).asText());
        DataSet<Tuple3<Long, Long, String>> b = s.get("in").size() > 1 ? at.get(s.get("in").get(1).asText()) : null;
        String op = s.get("op").asText(), fn = s.path("fn").asText("");
        String forwarded = s.path("forwarded").asText(null), second = s.path("forwarded_second").asText(null);
        int[] keys = s.has("keys") ? ints(s.get("keys")) : null, keys2 = s.has("keys_second") ? ints(s.get("keys_second")) : keys;
        DataSet made;
        switch (op) {
            case "map": { SingleInputUdfOperator o = a.map(new Mapper(fn)).returns(ROW); if (forwarded != null) o = o.withForwardedFields(forwarded.split(";")); made = o; break; }
            case "map_broadcast": { MapOperator o = a.map(new Broadcasted()); made = ((MapOperator) o.returns(ROW)).withBroadcastSet(b, "set"); break; }
            case "flat_map": { SingleInputUdfOperator o = a.flatMap(new FlatMapper(fn)).returns(ROW); if (forwarded != null) o = o.withForwardedFields(forwarded.split(";")); made = o; break; }
            case "map_partition": { SingleInputUdfOperator o = a.mapPartition(new PartitionMapper()).returns(ROW); if (forwarded != null) o = o.withForwardedFields(forwarded.split(";")); made = o; break; }
            case "filter": made = a.filter(new Keeps(fn)); break;
            case "project": made = a.project(ints(s.get("fields"))); break;
            case "distinct": made = a.distinct(keys); break;
            case "reduce": { ReduceOperator o = keys == null ? a.reduce(new Adds()) : a.groupBy(keys).reduce(fn.equals("larger") ? new Larger() : new Adds());
                if (s.has("combine_hint")) o = o.setCombineHint(org.apache.flink.api.common.operators.base.ReduceOperatorBase.CombineHint.valueOf(s.get("combine_hint").asText()));
                made = forwarded == null ? o : o.withForwardedFields(forwarded.split(";")); break; }
            case "reduce_group": {
                GroupReduceFunction f = fn.equals("numbered") ? new Numbered() : fn.equals("combinable") ? new CombinableGroup() : new Group();
                GroupReduceOperator o;
                if (keys == null) o = a.reduceGroup(f);
                else if (s.has("sort")) { SortedGrouping g = a.groupBy(keys).sortGroup(s.get("sort").get(0).get(0).asInt(), order(s.get("sort").get(0).get(1).asText()));
                    for (int i = 1; i < s.get("sort").size(); i++) g = g.sortGroup(s.get("sort").get(i).get(0).asInt(), order(s.get("sort").get(i).get(1).asText())); o = g.reduceGroup(f); }
                else o = a.groupBy(keys).reduceGroup(f);
                SingleInputUdfOperator u = (SingleInputUdfOperator) o.returns(ROW);
                made = forwarded == null ? u : u.withForwardedFields(forwarded.split(";")); break; }
            case "combine_group": { GroupCombineOperator o = keys == null ? a.combineGroup(new CombinableGroup()) : a.groupBy(keys).combineGroup(new CombinableGroup()); made = o.returns(ROW); break; }
            case "aggregate": { Iterator<JsonNode> it = s.get("aggregates").iterator(); JsonNode one = it.next();
                Aggregations how = Aggregations.valueOf(one.get(0).asText());
                AggregateOperator o = keys == null ? a.aggregate(how, one.get(1).asInt()) : a.groupBy(keys).aggregate(how, one.get(1).asInt());
                while (it.hasNext()) { one = it.next(); o = o.and(Aggregations.valueOf(one.get(0).asText()), one.get(1).asInt()); } made = o; break; }
            case "min_by": made = keys == null ? a.minBy(0, 1, 2) : a.groupBy(keys).minBy(0, 1, 2); break;
            case "max_by": made = keys == null ? a.maxBy(0, 1, 2) : a.groupBy(keys).maxBy(0, 1, 2); break;
            case "first": { SortedGrouping g = a.groupBy(keys).sortGroup(0, Order.ASCENDING).sortGroup(1, order(s.path("order").asText("asc"))).sortGroup(2, Order.ASCENDING); made = g.first(s.get("n").asInt()); break; }
            case "join": { JoinOperator.EquiJoin o = a.join(b, JoinHint.valueOf(s.path("hint").asText("OPTIMIZER_CHOOSES"))).where(keys).equalTo(keys2).with(new Joined());
                TwoInputUdfOperator u = (TwoInputUdfOperator) o.returns(ROW);
                if (forwarded != null) u = u.withForwardedFieldsFirst(forwarded.split(";")); if (second != null) u = u.withForwardedFieldsSecond(second.split(";")); made = u; break; }
            case "left_outer_join": made = ((TwoInputUdfOperator) a.leftOuterJoin(b, JoinHint.valueOf(s.path("hint").asText("OPTIMIZER_CHOOSES"))).where(keys).equalTo(keys2).with(new Joined())).returns(ROW); break;
            case "right_outer_join": made = ((TwoInputUdfOperator) a.rightOuterJoin(b, JoinHint.valueOf(s.path("hint").asText("OPTIMIZER_CHOOSES"))).where(keys).equalTo(keys2).with(new Joined())).returns(ROW); break;
            case "full_outer_join": made = ((TwoInputUdfOperator) a.fullOuterJoin(b, JoinHint.valueOf(s.path("hint").asText("OPTIMIZER_CHOOSES"))).where(keys).equalTo(keys2).with(new Joined())).returns(ROW); break;
            case "co_group": made = ((TwoInputUdfOperator) a.coGroup(b).where(keys).equalTo(keys2).with(new Grouped2())).returns(ROW); break;
            case "cross": { CrossOperator.DefaultCross c = fn.equals("tiny") ? a.crossWithTiny(b) : fn.equals("huge") ? a.crossWithHuge(b) : a.cross(b); made = ((TwoInputUdfOperator) c.with(new Crossed())).returns(ROW); break; }
            case "union": made = a.union(b); return made;
            case "rebalance": made = a.rebalance(); break;
            case "partition_hash": made = a.partitionByHash(keys); break;
            case "partition_range": made = a.partitionByRange(keys); break;
            case "partition_custom": made = a.partitionCustom(new Modulo(), keys[0]); break;
            case "sort_partition": made = a.sortPartition(keys[0], order(s.path("order").asText("asc"))); break;
            case "bulk_iteration": {
                IterativeDataSet<Tuple3<Long, Long, String>> it = a.iterate(s.get("rounds").asInt());
                it.name(s.get("id").asText());
                Map<String, DataSet<Tuple3<Long, Long, String>>> inside = new HashMap<>(at); inside.put("partial", it);
                String last = body(s, inside);
                return it.closeWith(inside.get(last)); }
            case "delta_iteration": {
                DeltaIteration<Tuple3<Long, Long, String>, Tuple3<Long, Long, String>> it = a.iterateDelta(b, s.get("rounds").asInt(), keys);
                it.name(s.get("id").asText());
                Map<String, DataSet<Tuple3<Long, Long, String>>> inside = new HashMap<>(at); inside.put("solution", (DataSet) it.getSolutionSet()); inside.put("workset", (DataSet) it.getWorkset());
                body(s, inside);
                return it.closeWith(inside.get(s.get("delta").asText()), inside.get(s.get("next").asText())); }
            case "improve": { // within a delta iteration: workset joined with the solution set, rows that are better
                made = ((TwoInputUdfOperator) a.join((DataSet) b).where(keys).equalTo(keys).with(new Improves())).returns(ROW); 
                if (forwarded != null) made = ((TwoInputUdfOperator) made).withForwardedFieldsFirst(forwarded.split(";")); break; }
            default: throw new IllegalArgumentException(op);
        }
        if (made instanceof SingleInputOperator) ((SingleInputOperator) made).name(s.get("id").asText());
        else if (made instanceof TwoInputOperator) ((TwoInputOperator) made).name(s.get("id").asText());
        if (s.has("parallelism") && made instanceof Operator) ((Operator) made).setParallelism(s.get("parallelism").asInt());
        return made;
    }
    static class Improves implements FlatJoinFunction<Tuple3<Long, Long, String>, Tuple3<Long, Long, String>, Tuple3<Long, Long, String>> {
        public void join(Tuple3<Long, Long, String> w, Tuple3<Long, Long, String> s, Collector<Tuple3<Long, Long, String>> out) { if (s == null) out.collect(w); else if (w.f1 < s.f1) out.collect(row(w.f0, w.f1, s.f2)); }
    }
    static String body(JsonNode s, Map<String, DataSet<Tuple3<Long, Long, String>>> inside) {
        String last = null;
        for (JsonNode inner : s.get("body")) { last = inner.get("id").asText(); inside.put(last, step(inner, inside)); }
        return last;
    }

    static ExecutionEnvironment environment(JsonNode program) {
        Configuration configuration = new Configuration();
        configuration.setString("taskmanager.memory.network.min", "256m");
        configuration.setString("taskmanager.memory.network.max", "256m");
        ExecutionEnvironment env = ExecutionEnvironment.createLocalEnvironment(configuration);
        env.setParallelism(program.path("parallelism").asInt(4));
        if (program.path("batch").asBoolean(false)) env.getConfig().setExecutionMode(org.apache.flink.api.common.ExecutionMode.BATCH);
        return env;
    }

    /** Adds a program to a job; its sinks have the program's number before their names. */
    static List<String> add(JsonNode program, ExecutionEnvironment env) {
        Map<String, DataSet<Tuple3<Long, Long, String>>> at = new LinkedHashMap<>();
        for (JsonNode s : program.get("sources")) {
            List<Tuple3<Long, Long, String>> rows = new ArrayList<>();
            for (JsonNode r : s.get("rows")) rows.add(row(r.get(0).asLong(), r.get(1).asLong(), r.get(2).asText()));
            Given given = new Given(rows, env, s.path("bytes").asLong(-1), s.path("count").asLong(-1));
            at.put(s.get("id").asText(), env.createInput(given, ROW).name(s.get("id").asText()));
        }
        for (JsonNode s : program.get("steps")) at.put(s.get("id").asText(), step(s, at));
        List<String> names = new ArrayList<>();
        for (JsonNode s : program.get("sinks")) {
            String name = program.get("id").asText() + " " + s.asText();
            names.add(name);
            at.get(s.asText()).output(new org.apache.flink.api.java.Utils.CollectHelper<>(name, ROW.createSerializer(env.getConfig()))).name("sink " + s.asText());
        }
        return names;
    }

    static ObjectNode planned(JsonNode program) {
        ObjectNode out = JSON.createObjectNode();
        out.set("id", program.get("id"));
        try {
            ExecutionEnvironment env = environment(program);
            add(program, env);
            out.set("plan", JSON.readTree(env.getExecutionPlan()));
        } catch (Throwable t) { failed(out, t); }
        return out;
    }

    static void failed(ObjectNode out, Throwable t) {
        Throwable root = t;
        while (root.getCause() != null) root = root.getCause();
        out.put("error", t.getClass().getSimpleName() + ": " + root.getClass().getSimpleName() + ": " + root.getMessage());
    }

    /** Runs programs as one job, and each by itself where that fails. */
    static void run(List<JsonNode> programs, Map<JsonNode, ObjectNode> answers) throws Exception {
        if (programs.isEmpty()) return;
        try {
            ExecutionEnvironment env = environment(programs.get(0));
            Map<JsonNode, List<String>> names = new LinkedHashMap<>();
            for (JsonNode program : programs) names.put(program, add(program, env));
            org.apache.flink.api.common.JobExecutionResult result = env.execute();
            for (JsonNode program : programs) {
                ObjectNode rows = answers.get(program).putObject("rows");
                for (String name : names.get(program)) {
                    ArrayList<byte[]> got = result.getAccumulatorResult(name);
                    ArrayNode list = rows.putArray(name.substring(name.indexOf(' ') + 1));
                    for (Tuple3<Long, Long, String> t : org.apache.flink.api.common.accumulators.SerializedListAccumulator.deserializeList(got, ROW.createSerializer(env.getConfig()))) {
                        list.addArray().add(t.f0).add(t.f1).add(t.f2);
                    }
                }
            }
        } catch (Throwable t) {
            if (programs.size() == 1) failed(answers.get(programs.get(0)), t);
            else for (JsonNode program : programs) run(List.of(program), answers);
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintWriter out = new PrintWriter(new OutputStreamWriter(System.out, "UTF-8"), true);
        for (String line; (line = in.readLine()) != null; ) {
            Map<JsonNode, ObjectNode> answers = new LinkedHashMap<>();
            for (JsonNode program : JSON.readTree(line)) answers.put(program, planned(program));
            List<JsonNode> runs = new ArrayList<>();
            for (JsonNode program : answers.keySet()) if (!answers.get(program).has("error") && !program.path("plan_only").asBoolean(false)) runs.add(program);
            run(runs, answers);
            for (ObjectNode answer : answers.values()) out.println(JSON.writeValueAsString(answer));
        }
        System.exit(0);
    }
}
