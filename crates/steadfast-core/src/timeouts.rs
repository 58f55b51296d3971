//! timeouts
