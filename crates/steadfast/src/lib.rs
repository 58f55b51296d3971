//! Drivers of the decisions: tower layers, stores and the pooled client.
