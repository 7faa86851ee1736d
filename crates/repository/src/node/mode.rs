//! Permission and type bits with the numbering of Go's `os.FileMode`, which the format stores.

const DIRECTORY: u32 = 1 << 31;
const SYMLINK: u32 = 1 << 27;
const DEVICE: u32 = 1 << 26;
const FIFO: u32 = 1 << 25;
const SOCKET: u32 = 1 << 24;
const SETUID: u32 = 1 << 23;
const SETGID: u32 = 1 << 22;
const CHAR_DEVICE: u32 = 1 << 21;
const STICKY: u32 = 1 << 20;
const IRREGULAR: u32 = 1 << 19;

use super::NodeKind;

/// The mode of a node, in Go's bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Mode(pub u32);

impl Mode {
    /// From `st_mode`.
    pub fn from_unix(mode: u32) -> Self {
        let kind = match mode & 0o170_000 {
            0o040_000 => DIRECTORY,
            0o120_000 => SYMLINK,
            0o060_000 => DEVICE,
            0o020_000 => DEVICE | CHAR_DEVICE,
            0o010_000 => FIFO,
            0o140_000 => SOCKET,
            0o100_000 => 0,
            _ => IRREGULAR,
        };
        let bit = |unix: u32, go: u32| if mode & unix == 0 { 0 } else { go };
        Self(kind | bit(0o4000, SETUID) | bit(0o2000, SETGID) | bit(0o1000, STICKY) | (mode & 0o777))
    }

    /// Permission bits with set-uid, set-gid and sticky, for `chmod`.
    pub fn permissions(self) -> u32 {
        let bit = |go: u32, unix: u32| if self.0 & go == 0 { 0 } else { unix };
        bit(SETUID, 0o4000) | bit(SETGID, 0o2000) | bit(STICKY, 0o1000) | (self.0 & 0o777)
    }

    /// The kind according to the type bits.
    pub fn kind(self) -> NodeKind {
        match self.0 & (DIRECTORY | SYMLINK | DEVICE | CHAR_DEVICE | FIFO | SOCKET | IRREGULAR) {
            0 => NodeKind::File,
            DIRECTORY => NodeKind::Directory,
            SYMLINK => NodeKind::Symlink,
            DEVICE => NodeKind::BlockDevice,
            bits if bits == DEVICE | CHAR_DEVICE => NodeKind::CharDevice,
            FIFO => NodeKind::Fifo,
            SOCKET => NodeKind::Socket,
            _ => NodeKind::Irregular,
        }
    }

    /// As in `ls -l`: `drwxr-xr-x`.
    pub fn text(self) -> String {
        let kind = match self.kind() {
            NodeKind::Directory => 'd',
            NodeKind::Symlink => 'l',
            NodeKind::BlockDevice => 'b',
            NodeKind::CharDevice => 'c',
            NodeKind::Fifo => 'p',
            NodeKind::Socket => 's',
            NodeKind::File => '-',
            NodeKind::Irregular | NodeKind::Unknown(_) => '?',
        };
        let mut text = String::from(kind);
        for (shift, special, letter) in [(6, SETUID, 's'), (3, SETGID, 's'), (0, STICKY, 't')] {
            let bits = self.0 >> shift;
            text.push(if bits & 4 == 0 { '-' } else { 'r' });
            text.push(if bits & 2 == 0 { '-' } else { 'w' });
            text.push(match (self.0 & special != 0, bits & 1 != 0) {
                (false, false) => '-',
                (false, true) => 'x',
                (true, true) => letter,
                (true, false) => letter.to_ascii_uppercase(),
            });
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case(0o100_644, 0o644, "-rw-r--r--")]
    #[case(0o040_755, 0x8000_01ed, "drwxr-xr-x")]
    #[case(0o104_755, 0x0080_01ed, "-rwsr-xr-x")]
    #[case(0o041_777, 0x8010_01ff, "drwxrwxrwt")]
    #[case(0o020_620, 0x0420_0190, "crw--w----")]
    #[case(0o102_644, 0x0040_01a4, "-rw-r-Sr--")]
    fn unix_bits_become_go_bits_and_come_back(#[case] unix: u32, #[case] go: u32, #[case] text: &str) {
        let mode = Mode::from_unix(unix);
        assert_eq!(mode, Mode(go));
        assert_eq!(mode.permissions(), unix & 0o7777);
        assert_eq!(mode.text(), text);
    }
}
