//! An operator in Rust on dora's published crate: it counts its messages, and does what some of them say.

use dora_operator_api::{register_operator, DoraOperator, DoraOutputSender, DoraStatus, Event, IntoArrow};

register_operator!(Tally);

#[derive(Default)]
struct Tally {
    count: u64,
}

impl Tally {
    fn tell(&self, output_sender: &mut DoraOutputSender, what: &str) -> Result<(), String> {
        output_sender.send("told", format!("{what} {}", self.count).into_bytes().into_arrow())
    }
}

impl DoraOperator for Tally {
    fn on_event(&mut self, event: &Event, output_sender: &mut DoraOutputSender) -> Result<DoraStatus, String> {
        match event {
            Event::Input { id, data, .. } => {
                self.count += 1;
                let text = String::from_utf8(Vec::<u8>::try_from(data).map_err(|error| error.to_string())?);
                match text.as_deref().unwrap_or("?") {
                    "error" => return Err("no such thing".into()),
                    "panic" => panic!("what now"),
                    "stop" => return Ok(DoraStatus::Stop),
                    said => self.tell(output_sender, &format!("{id} {said}"))?,
                }
            }
            Event::InputClosed { id } => self.tell(output_sender, &format!("closed {id}"))?,
            Event::InputParseError { id, error } => self.tell(output_sender, &format!("unreadable {id}: {error}"))?,
            Event::Error { error } => self.tell(output_sender, &format!("error {error}"))?,
            Event::Stop => self.tell(output_sender, "stop")?,
            _ => {}
        }
        Ok(DoraStatus::Continue)
    }
}
