//! Events of the server. An event that cannot be written is logged; it does not fail the work.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use crate::MANAGER;

/// Writes events under one reporter name.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
}

impl Events {
    pub fn new(client: Client, instance: &str) -> Self {
        let reporter = Reporter { controller: MANAGER.into(), instance: Some(instance.to_owned()) };
        Self { recorder: Recorder::new(client, reporter) }
    }

    /// Records a normal event.
    pub async fn normal(&self, about: &ObjectReference, reason: &str, note: &str) {
        self.publish(EventType::Normal, about, reason, note).await;
    }

    /// Records a warning.
    pub async fn warning(&self, about: &ObjectReference, reason: &str, note: &str) {
        self.publish(EventType::Warning, about, reason, note).await;
    }

    async fn publish(&self, type_: EventType, about: &ObjectReference, reason: &str, note: &str) {
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(shortened(note)),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, about).await {
            tracing::warn!(%error, reason, object = about.name, "cannot write an event");
        }
    }
}

/// The API server accepts at most 1 kB.
fn shortened(note: &str) -> String {
    const MOST: usize = 1000;
    if note.len() <= MOST {
        return note.to_owned();
    }
    let end = (0..=MOST).rev().find(|at| note.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &note[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_is_cut_between_characters() {
        let cut = shortened(&"ü".repeat(900));
        assert!(cut.len() <= 1024, "{}", cut.len());
        assert!(cut.ends_with('…'));
        assert_eq!(shortened("short"), "short");
    }
}
