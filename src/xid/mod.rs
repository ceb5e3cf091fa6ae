//! What the driver said: the kernel-log grammar of Xid messages, and the catalogue of Xid codes. Pure.

mod catalogue;
mod line;
mod link;
mod message;
mod pci;
mod recovery;
mod switch_catalogue;
mod sxid;
mod wording;

pub use catalogue::{Class, Entry, Resolution, Source, all, find, watched};
pub use line::{BusLoss, Message, Parser, may_be_message};
pub use link::LinkEvent;
pub use message::{Process, XidMessage};
pub use pci::{ParsePciAddressError, PciAddress};
pub use recovery::{RecoveryAction, RecoveryChange};
pub use switch_catalogue::{SwitchEntry, SwitchScope, all_sxids, find_sxid};
pub use sxid::{SxidClass, SxidMessage};
