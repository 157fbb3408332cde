//! The counter of dora's older guide. `types::` is ours: no published version of the crate lets anyone use its `arrow` without.

use dora_operator_api::types::arrow::array::UInt64Array;
use dora_operator_api::{DoraOperator, DoraOutputSender, DoraStatus, Event, register_operator};

#[derive(Default)]
struct Counter {
    count: u64,
}

impl DoraOperator for Counter {
    fn on_event(
        &mut self,
        event: &Event,
        output_sender: &mut DoraOutputSender,
    ) -> Result<DoraStatus, String> {
        if let Event::Input { .. } = event {
            self.count += 1;

            let output = UInt64Array::from(vec![self.count]);
            output_sender.send("count".to_string(), output)?;
        }

        if matches!(event, Event::Stop) {
            return Ok(DoraStatus::Stop);
        }

        Ok(DoraStatus::Continue)
    }
}

register_operator!(Counter);
