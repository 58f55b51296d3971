//! shim
#[derive(Clone, Debug, Default)]
pub struct FingerprintOptions;
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);
#[derive(Clone)]
pub struct FingerprintSecret {
    pub id: String,
    pub bytes: [u8; 32],
}
