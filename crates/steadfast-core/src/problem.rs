//! problem
