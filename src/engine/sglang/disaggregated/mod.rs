//! The two halves of a disaggregated SGLang deployment (PD-22 to PD-33): a server that only prefills, one that only
//! decodes. Both are the replica of this module with another queue in front and another end behind.

mod decode;
mod prefill;

pub use decode::DecodeOptions;

pub(super) use decode::DecodeRole;
pub(super) use prefill::PrefillRole;

/// What a server does of each request.
#[derive(Debug, Default)]
pub(super) enum Role {
    /// Everything.
    #[default]
    Whole,
    /// `--disaggregation-mode prefill`.
    Prefill(PrefillRole),
    /// `--disaggregation-mode decode`.
    Decode(DecodeRole),
}

impl Role {
    /// The server starts anew: nobody is inside.
    pub(super) fn restart(&mut self) {
        match self {
            Role::Whole => {}
            Role::Prefill(role) => *role = PrefillRole::default(),
            Role::Decode(role) => role.restart(),
        }
    }
}
