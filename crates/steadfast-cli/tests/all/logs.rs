//! What the gateway logs.
