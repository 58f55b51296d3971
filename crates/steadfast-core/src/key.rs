//! shim
use std::fmt;
#[derive(Clone, Debug, Default)]
pub struct KeyRules;
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardAs {
    Bare,
    Quoted,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeKind {
    Operation,
    Principal,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScopeHash(pub [u8; 32]);
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant(pub String);
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation(pub String);
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Key(pub String);
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
#[derive(Clone)]
pub struct ScopeSecret(pub [u8; 32]);
