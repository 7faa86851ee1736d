//! Creates a tree with every kind of entry, name and metadata that a backup must store, in an empty directory; called
//! by tests of the repository. For other users, what only root can create is skipped with a message.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chownat, lsetxattr, makedev,
    mknodat, utimensat,
};

/// Fills `root`, which exists and is empty.
pub fn everything(root: &Path) {
    contents(&root.join("contents"));
    modes(&root.join("modes"));
    names(&root.join("names"));
    links(&root.join("links"));
    holes(&root.join("holes"));
    attributes(&root.join("attributes"));
    mknod(&root.join("fifo"), FileType::Fifo, 0);
    mknod(&root.join("socket"), FileType::Socket, 0);
    if rustix::process::geteuid().is_root() {
        owners(&root.join("owners"));
        devices(&root.join("devices"));
        attributes_of_root(&root.join("attributes"));
    } else {
        eprintln!("not root: owners, devices, trusted and security attributes are left out");
    }
    // Last, because everything above changes the times of directories.
    times(&root.join("times"));
    stamp(root, 1_600_000_000, 1);
}

/// Sizes around the chunker's limits, compressible and incompressible bytes, duplicate content.
fn contents(directory: &Path) {
    fs::create_dir_all(directory.join("empty directory")).unwrap();
    for size in [0, 1, 100, 512 << 10, (512 << 10) + 1, 3 << 20, (8 << 20) + 1] {
        fs::write(directory.join(format!("random-{size}")), random(size)).unwrap();
        fs::write(directory.join(format!("zeros-{size}")), vec![0; size]).unwrap();
    }
    fs::write(directory.join("again"), random(3 << 20)).unwrap();
    fs::write(directory.join("text"), "one line of text\n".repeat(10_000)).unwrap();
}

fn modes(directory: &Path) {
    for mode in [0o000, 0o400, 0o644, 0o755, 0o777, 0o1644, 0o2755, 0o4755, 0o7777] {
        let file = directory.join(format!("file-{mode:04o}"));
        write(&file, "mode");
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    }
    for mode in [0o700, 0o1777, 0o2775, 0o7755] {
        let inner = directory.join(format!("directory-{mode:04o}"));
        write(&inner.join("file"), "below");
        fs::set_permissions(&inner, fs::Permissions::from_mode(mode)).unwrap();
    }
}

/// Names that break programs that quote, split, decode or join them.
fn names(directory: &Path) {
    let longest = [b'n'; 255];
    let all: [&[u8]; 22] = [
        b"new\nline",
        b"tab\tand\rreturn",
        b"\xff\xfe not UTF-8 \x80",
        b"\xed\xa0\x80 half a surrogate",
        b"\"double\" and 'single' quotes",
        b"back\\slash \\n \\x41 \\u0041",
        "\u{e9} composed".as_bytes(),
        "e\u{301} decomposed".as_bytes(),
        "\u{1f6df} \u{65e5}\u{672c}\u{8a9e}".as_bytes(),
        "\u{2028}\u{feff}\u{fffd}".as_bytes(),
        b"-dash",
        b"--option=value",
        b".hidden",
        b"..two dots",
        b"...",
        b" spaces ",
        b"*?[a-z]{b,c}!$HOME`id`",
        b"\x01\x1f\x7f",
        b"<html>&amp;",
        b"C:\\CON.txt",
        b"%2e%2e%2f",
        &longest,
    ];
    for name in all {
        write(&directory.join(OsStr::from_bytes(name)), "a name");
    }
    let deep: PathBuf =
        (0..60).map(|level| format!("{level:02}-a-level-of-a-deep-path-with-a-long-name")).collect();
    write(&directory.join(deep).join("deep"), "deep");
}

fn links(directory: &Path) {
    write(&directory.join("a/one"), "three names");
    write(&directory.join("b/other"), "other");
    fs::hard_link(directory.join("a/one"), directory.join("a/two")).unwrap();
    fs::hard_link(directory.join("a/one"), directory.join("b/three")).unwrap();
    let targets: [(&str, &[u8]); 8] = [
        ("relative", b"a/one"),
        ("upwards", b"../contents/text"),
        ("absolute", b"/etc/passwd"),
        ("dangling", b"no/such/file"),
        ("directory", b"a"),
        ("itself", b"itself"),
        ("not UTF-8", b"\xff\xfe/\x80"),
        ("new line", b"two\nlines"),
    ];
    for (name, target) in targets {
        symlink(OsStr::from_bytes(target), directory.join(name)).unwrap();
    }
    symlink("t".repeat(4000), directory.join("long")).unwrap();
}

/// Files with holes at the beginning, in the middle and at the end, and one that is a single hole.
fn holes(directory: &Path) {
    fs::create_dir_all(directory).unwrap();
    for (name, size, data) in [
        ("front", 8 << 20, Some((7 << 20, 1 << 20))),
        ("middle", 12 << 20, Some((2 << 20, 100))),
        ("end", 16 << 20, Some((0, 10))),
        ("only", 20 << 20, None),
    ] {
        let file = File::create(directory.join(name)).unwrap();
        file.set_len(size).unwrap();
        if let Some((offset, length)) = data {
            file.write_all_at(&random(length), offset).unwrap();
        }
    }
}

fn attributes(directory: &Path) {
    let file = directory.join("file");
    write(&file, "attributes");
    for place in [directory, &file] {
        set(place, "user.empty", b"");
        set(place, "user.text", b"some text");
        set(place, "user.binary", &(0..=255).collect::<Vec<u8>>());
        set(place, "user.long", &[b'x'; 1500]);
    }
    let access =
        acl(&[(1, 6, ANYONE), (2, 4, 1000), (4, 4, ANYONE), (8, 6, 100), (16, 6, ANYONE), (32, 0, ANYONE)]);
    let with_list = directory.join("access list");
    write(&with_list, "access list");
    set(&with_list, "system.posix_acl_access", &access);
    let inherited = directory.join("default access list");
    fs::create_dir_all(&inherited).unwrap();
    set(&inherited, "system.posix_acl_default", &access);
}

fn attributes_of_root(directory: &Path) {
    let file = directory.join("of root");
    write(&file, "attributes");
    let link = directory.join("link");
    symlink("of root", &link).unwrap();
    for place in [directory, &file, &link] {
        set(place, "trusted.lifeboat", b"only root sees it");
    }
    set(&file, "security.lifeboat", b"\x00\x01 binary");
    // A file capability as `setcap cap_net_raw+ep` stores it: version 2, effective, one permitted bit.
    let capability = [0x0200_0001_u32, 1 << 13, 0, 0, 0].map(u32::to_le_bytes).concat();
    set(&file, "security.capability", &capability);
}

fn owners(directory: &Path) {
    let entries =
        [("person", 1000, 1001), ("no such user", 54_321, 12_345), ("largest", 4_000_000_000, 4_000_000_001)];
    for (name, user, group) in entries {
        let file = directory.join(name);
        write(&file, "owner");
        let link = directory.join(format!("link to {name}"));
        symlink(name, &link).unwrap();
        let inner = directory.join(format!("directory of {name}"));
        fs::create_dir_all(&inner).unwrap();
        for path in [&file, &link, &inner] {
            let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
            chownat(CWD, path, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW).unwrap();
        }
    }
    // A change of owner clears these bits, so they are set after it.
    let program = directory.join("setuid of person");
    write(&program, "program");
    chownat(CWD, &program, Some(Uid::from_raw(1000)), Some(Gid::from_raw(1001)), AtFlags::empty()).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o6755)).unwrap();
}

fn devices(directory: &Path) {
    fs::create_dir_all(directory).unwrap();
    mknod(&directory.join("null"), FileType::CharacterDevice, makedev(1, 3));
    mknod(&directory.join("loop"), FileType::BlockDevice, makedev(7, 200));
    mknod(&directory.join("large numbers"), FileType::CharacterDevice, makedev(4000, 1_000_000));
}

/// Whole seconds, nanoseconds, before 1970, after 2038; on files, directories and links.
fn times(directory: &Path) {
    let moments = [
        (0, 0),
        (1_234_567_890, 123_456_789),
        (1_700_000_000, 999_999_999),
        (-1, 500_000_000),
        (-1_000_000_000, 1),
        (4_102_444_800, 1),
    ];
    fs::create_dir_all(directory).unwrap();
    for (index, (seconds, nanoseconds)) in moments.into_iter().enumerate() {
        let file = directory.join(format!("file-{index}"));
        write(&file, "time");
        let inner = directory.join(format!("directory-{index}"));
        write(&inner.join("file"), "below");
        let link = directory.join(format!("link-{index}"));
        symlink("target", &link).unwrap();
        for path in [&file, &inner, &link] {
            stamp(path, seconds, nanoseconds);
        }
    }
}

fn stamp(path: &Path, seconds: i64, nanoseconds: i64) {
    let moment = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: moment, last_modification: moment };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap_or_else(|error| panic!("cannot write {path:?}: {error}"));
}

fn set(path: &Path, name: &str, value: &[u8]) {
    lsetxattr(path, name, value, XattrFlags::empty()).unwrap_or_else(|error| {
        panic!("cannot set {name} on {path:?}: {error}; is it a file system without them?")
    });
}

fn mknod(path: &Path, kind: FileType, device: u64) {
    mknodat(CWD, path, kind, Mode::from_raw_mode(0o640), device).unwrap();
}

/// The id of ACL entries that do not have one.
const ANYONE: u32 = u32::MAX;

/// An ACL as the kernel stores it: version 2, then tag, permissions and id of each entry.
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let entry = |(tag, permissions, id): &(u16, u16, u32)| {
        [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    [2_u32.to_le_bytes().to_vec(), entries.iter().flat_map(entry).collect()].concat()
}

/// Incompressible bytes, always the same.
fn random(length: usize) -> Vec<u8> {
    let mut state = 0x1234_5678_9abc_def0_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
