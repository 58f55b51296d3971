//! What others' users met, tried on the gateway over real sockets. Each test names the public
//! report it comes from; docs/cases.md lists these and the ones that other tests cover.

mod answers;
mod bodies;
mod connections;
mod pooling;
mod racing;
mod spellings;
mod trailers;
