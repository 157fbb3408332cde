//! Exchange by key and keyed count: `beside RECORDS KEYS EPOCHS -w WORKERS` says how many seconds the records took.
use std::collections::HashMap;
use std::time::Instant;

use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::Operator;
use timely::dataflow::InputHandle;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |place: usize| arguments[place].parse::<u64>().unwrap();
    let (records, keys, epochs) = (number(1), number(2), number(3));
    timely::execute_from_args(std::env::args().skip(4), move |worker| {
        let (index, peers) = (worker.index() as u64, worker.peers() as u64);
        let mut input = InputHandle::new();
        worker.dataflow::<u64, _, _>(|scope| {
            input
                .to_stream(scope)
                .unary_frontier(Exchange::new(|x: &(u64, i64)| x.0), "Count", |_capability, _info| {
                    let mut queues = HashMap::new();
                    let mut counts: HashMap<u64, i64> = HashMap::new();
                    move |(input, frontier), output| {
                        input.for_each_time(|time, data| {
                            queues
                                .entry(time.retain(output.output_index()))
                                .or_insert(Vec::new())
                                .extend(data.map(std::mem::take));
                        });
                        let mut ready: Vec<_> = queues.keys().filter(|key| !frontier.less_equal(key.time())).cloned().collect();
                        ready.sort_by(|one, other| one.time().cmp(other.time()));
                        for key in ready {
                            let batches: Vec<Vec<(u64, i64)>> = queues.remove(&key).unwrap();
                            let mut changed: HashMap<u64, i64> = HashMap::new();
                            for (word, diff) in batches.into_iter().flatten() {
                                *changed.entry(word).or_insert(0) += diff;
                            }
                            let mut session = output.session(&key);
                            for (word, diff) in changed {
                                let entry = counts.entry(word).or_insert(0);
                                *entry += diff;
                                session.give((word, *entry));
                            }
                        }
                    }
                })
                .container::<Vec<(u64, i64)>>()
                .sink(Pipeline, "Sum", |(input, _frontier)| {
                    input.for_each_time(|_time, data| data.for_each(|batch| drop(std::mem::take(batch))));
                });
        });
        let begin = Instant::now();
        let mut random = 88172645463325252u64 ^ (index + 1);
        for epoch in 0..epochs {
            for _ in 0..records / epochs / peers {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                input.send((random % keys, 1i64));
            }
            input.advance_to(epoch + 1);
            worker.step();
        }
        input.close();
        while worker.step() {}
        println!("{}", begin.elapsed().as_secs_f64());
    })
    .unwrap();
}
