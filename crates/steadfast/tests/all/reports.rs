//! What others' users met, tried on the server layer and the stores. Each test names the public
//! report it comes from; docs/cases.md lists these and the ones that other tests cover.

mod files;
mod holders;
mod waiters;
