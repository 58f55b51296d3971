//! A place that does not allow it, and words that mean nothing: the program says what, why and what
//! to do, does nothing, and leaves what it found as it was.

mod files;
mod full;
mod modes;
mod unheard;
mod words;
