//! What the driver said: the kernel-log grammar of Xid messages, and the catalogue of Xid codes. Pure.

mod catalogue;
mod line;
mod pci;
mod recovery;

pub use catalogue::{Class, Entry, Resolution, all, find, watched};
pub use line::{BusLoss, Message, Parser, Process, XidMessage, may_be_message};
pub use pci::{ParsePciAddressError, PciAddress};
pub use recovery::{RecoveryAction, RecoveryChange};
