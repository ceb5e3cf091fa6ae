//! The SXid codes of NVSwitches up to Hopper's, and what NVIDIA says of them, as data.
//!
//! Source: NVIDIA's Fabric Manager user guide, the tables of fatal, non-fatal and harmless NVSwitch errors. A code that is not
//! here is what the class word of its own line says. Blackwell's switches report through Xids 144 to 150 instead.

use SwitchScope::{
    AllGpusAndSwitches, Cooling, Harmless, Host, LinkDependent, Mechanics, VirtualMachine,
};

/// What an SXid asks for, and how far that reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SwitchScope {
    /// The machine, or a reset of the switch's bus.
    Host,
    /// On a link to a GPU, that GPU and those that work with it; on a link between switches, all GPUs and switches.
    LinkDependent,
    /// All GPUs and switches of the machine.
    AllGpusAndSwitches,
    /// Where switches are shared between virtual machines, the one concerned.
    VirtualMachine,
    /// The cooling.
    Cooling,
    /// Plugs and seating of the link.
    Mechanics,
    /// Nothing: the hardware has put it right, or it is only information.
    Harmless,
}

impl SwitchScope {
    /// What is to be done, in words.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Host => "restart the machine",
            Self::LinkDependent => {
                "on a link to a GPU reset the GPUs that take part, on a link between switches reset all GPUs and switches"
            }
            Self::AllGpusAndSwitches => "reset all GPUs and NVSwitches of the machine",
            Self::VirtualMachine => "restart the virtual machine",
            Self::Cooling => "check the cooling",
            Self::Mechanics => "check plugs and seating of the link",
            Self::Harmless => "nothing",
        }
    }
}

/// One code, or several that mean the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchEntry {
    /// The SXid's number.
    pub code: u32,
    /// Whether the guide calls it fatal.
    pub fatal: bool,
    /// What it asks for.
    pub scope: SwitchScope,
}

const ROWS: &[(bool, SwitchScope, &[u32])] = &[
    (true, Host, &[12020, 22003, 22011]),
    (
        true,
        Host,
        &[
            23001, 23002, 23003, 23004, 23005, 23006, 23007, 23008, 23009, 23010, 23011, 23012,
            23013, 23014, 23015, 23016, 23017,
        ],
    ),
    (
        true,
        LinkDependent,
        &[
            11001, 11009, 11013, 11018, 11019, 11020, 12001, 12002, 12022, 12024, 12025, 12026,
            12027, 12030, 12031, 12032, 14017, 15001, 15006, 15009, 15010, 15012, 15013, 19047,
            19048, 19054, 19056, 19058, 19060, 19061, 19063, 19064, 19066, 19067, 19069, 19070,
            20034, 22012, 24004, 24005, 24006, 24007,
        ],
    ),
    (true, AllGpusAndSwitches, &[10003]),
    (false, AllGpusAndSwitches, &[19084]),
    (false, VirtualMachine, &[11004, 12028]),
    (false, Cooling, &[10004, 10005]),
    (false, Mechanics, &[20012]),
    (
        false,
        Harmless,
        &[
            10001, 10002, 11012, 11021, 11022, 11023, 12021, 12023, 15008, 15011, 19049, 19055,
            19057, 19059, 19062, 19065, 19068, 19071, 20001, 22013, 24001, 24002, 24003,
        ],
    ),
];

/// All codes, by what they ask for.
pub fn all_sxids() -> impl Iterator<Item = SwitchEntry> {
    ROWS.iter().flat_map(|(fatal, scope, codes)| {
        codes.iter().map(|code| SwitchEntry {
            code: *code,
            fatal: *fatal,
            scope: *scope,
        })
    })
}

/// The entry of a code.
#[must_use]
pub fn find_sxid(code: u32) -> Option<SwitchEntry> {
    all_sxids().find(|entry| entry.code == code)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_code_stands_once_and_is_no_xid() {
        let codes: BTreeSet<u32> = all_sxids().map(|entry| entry.code).collect();
        assert_eq!(codes.len(), all_sxids().count());
        assert!(codes.iter().all(|code| (10_000..100_000).contains(code)));
        assert_eq!(find_sxid(12020).unwrap().scope, Host);
        assert!(!find_sxid(20001).unwrap().fatal);
        assert_eq!(find_sxid(99999), None);
    }
}
