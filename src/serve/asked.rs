//! What was asked of a server, as a trace that grows: a row for each request as it ends, times by the simulated clock.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};

use crate::ids::RequestId;
use crate::units::Picos;
use crate::workload::Post;
use crate::workload::trace::{Asked, salted};

/// The rows, in the order in which requests end.
pub(super) struct Trace {
    /// Where they go, until something goes wrong there.
    file: Option<Box<dyn Write + Send>>,
    /// Of requests inside: what they asked for, and how long their answers would be.
    inside: BTreeMap<RequestId, (Asked, u32)>,
    classes: Vec<String>,
    /// What ids are mixed with. It is drawn for each file and kept nowhere, so that nobody finds a text by trying which has its id.
    salt: u64,
    done: Rows,
}

/// What was written.
#[derive(Debug, Default)]
pub struct Rows {
    /// Rows.
    pub rows: u64,
    /// Those of requests that were not answered whole: they have the length that they would have had.
    pub unanswered: u64,
    /// Why there are no more.
    pub error: Option<io::Error>,
}

impl Trace {
    /// Of a server with these classes of requests.
    pub(super) fn new(file: Box<dyn Write + Send>, classes: Vec<String>) -> Trace {
        Trace {
            file: Some(file),
            inside: BTreeMap::new(),
            classes,
            salt: RandomState::new().build_hasher().finish(),
            done: Rows::default(),
        }
    }

    /// A request comes.
    pub(super) fn asked(&mut self, id: RequestId, at: Picos, post: &Post) {
        if self.file.is_none() {
            return;
        }
        let asked = Asked {
            session: post.session.map(|session| salted(session, self.salt)),
            class: self.classes.get(post.class as usize).cloned(),
            ..Asked::new(at, &post.prompt, self.salt)
        };
        self.inside.insert(id, (asked, post.output_tokens));
    }

    /// It has its answer, of so many tokens, or left without it.
    pub(super) fn ended(&mut self, id: RequestId, answered: Option<u32>) {
        let (Some((asked, planned)), Some(file)) = (self.inside.remove(&id), &mut self.file) else {
            return;
        };
        let row = asked.row(answered.unwrap_or(planned));
        match file.write_all(row.as_bytes()).and_then(|()| file.flush()) {
            Ok(()) => {
                self.done.rows += 1;
                self.done.unanswered += u64::from(answered.is_none());
            }
            Err(error) => {
                self.done.error = Some(error);
                self.file = None;
                self.inside.clear();
            }
        }
    }

    /// The server closes: whoever is inside has asked, too.
    pub(super) fn close(mut self) -> Rows {
        while let Some((&id, _)) = self.inside.first_key_value() {
            self.ended(id, None);
        }
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Span;
    use std::sync::{Arc, Mutex};

    /// Takes so many bytes.
    struct Small(Arc<Mutex<Vec<u8>>>, usize);

    impl Write for Small {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut held = self.0.lock().unwrap();
            if held.len() + bytes.len() > self.1 {
                return Err(io::Error::other("full"));
            }
            held.extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn post(class: u32) -> Post {
        Post {
            prompt: vec![Span::Text { name: 1, tokens: 5 }],
            output_tokens: 9,
            max_tokens: 9,
            priority: 0,
            class,
            ignore_eos: false,
            session: None,
        }
    }

    #[test]
    fn nothing_that_was_asked_is_missing() {
        let held = Arc::<Mutex<Vec<u8>>>::default();
        let small = Small(Arc::clone(&held), 1000);
        let mut trace = Trace::new(Box::new(small), vec!["a".to_owned(), "b".to_owned()]);
        (0..3).for_each(|id| trace.asked(RequestId(id), Picos(id), &post(id as u32 % 2)));
        trace.ended(RequestId(1), Some(4));
        trace.ended(RequestId(0), None);
        let done = trace.close();
        assert_eq!((done.rows, done.unanswered), (3, 2));
        let rows = String::from_utf8(held.lock().unwrap().clone()).unwrap();
        let told: Vec<serde_json::Value> = rows
            .lines()
            .map(|row| serde_json::from_str(row).unwrap())
            .collect();
        let told: Vec<_> = told
            .iter()
            .map(|row| (row["output_length"].as_u64(), row["class"].as_str()))
            .collect();
        assert_eq!(
            told,
            [(Some(4), Some("b")), (Some(9), Some("a")), (Some(9), Some("a"))]
        );
    }

    #[test]
    fn a_full_disk_is_said_and_harms_nobody() {
        let small = Small(Arc::default(), 150);
        let mut trace = Trace::new(Box::new(small), Vec::new());
        (0..3).for_each(|id| trace.asked(RequestId(id), Picos(id), &post(0)));
        (0..3).for_each(|id| trace.ended(RequestId(id), Some(9)));
        let done = trace.close();
        assert_eq!(done.rows, 1);
        assert_eq!(done.error.map(|error| error.to_string()).as_deref(), Some("full"));
    }
}
