//! All tests of the program as one binary, so that they are linked once. A new subject is a module.

mod framing;
mod listen;
