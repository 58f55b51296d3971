//! fingerprint
