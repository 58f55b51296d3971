//! The program `steadfast` as a library, so that its tests reach its parts. It assembles; the rules
//! are in `steadfast-core`.

pub mod gateway;
