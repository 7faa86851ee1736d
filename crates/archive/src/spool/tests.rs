mod limits;
mod properties;

use std::io::Write;

use futures::{StreamExt, stream};
use lifeboat_api::catalogue::GroupResource;
use rstest::rstest;

use super::*;
use crate::upload::compress;
use crate::writer::tar as written;

const POD: &str = "resources/pods/namespaces/shop/web.json";

fn object(kind: &str, namespace: &str, name: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"{kind}","metadata":{{"namespace":"{namespace}","name":"{name}"}}}}"#
    )
}

fn pod() -> Vec<u8> {
    object("Pod", "shop", "web").into_bytes()
}

fn plain(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, content) in entries {
        written::append(&mut out, name, content, 0);
    }
    out
}

fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = plain(entries);
    written::end(&mut out);
    compress(&out).unwrap().to_vec()
}

fn reading(stored: &[u8], piece: usize) -> ObjectReading {
    let chunks: Vec<_> = stored.chunks(piece.max(1)).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    ObjectReading { size: Some(stored.len() as u64), body: stream::iter(chunks).boxed() }
}

async fn read_with(stored: &[u8], limits: SpoolLimits) -> Result<Spool, SpoolError> {
    let directory = tempfile::tempdir().unwrap();
    Spool::read(reading(stored, 1000), directory.path(), limits).await
}

async fn read(stored: &[u8]) -> Result<Spool, SpoolError> {
    read_with(stored, SpoolLimits::default()).await
}

#[tokio::test]
async fn the_spool_gives_back_what_was_in_the_archive() {
    let mut entries = vec![("metadata/version".to_owned(), b"1.1.0\n".to_vec())];
    for number in 0..500 {
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"namespace":"n{}","name":"c{number}"}},"data":{{"a":"{}"}}}}"#,
            number % 3,
            "x".repeat(number * 7),
        );
        entries.push((
            format!("resources/configmaps/namespaces/n{}/c{number}.json", number % 3),
            json.into_bytes(),
        ));
    }
    let borrowed: Vec<_> =
        entries.iter().map(|(name, content)| (name.as_str(), content.as_slice())).collect();
    let spool = read(&archive(&borrowed)).await.unwrap();
    assert_eq!(spool.len(), 500);
    for item in spool.items() {
        assert_eq!(spool.get(item.index()).await.unwrap(), entries[item.index() + 1].1);
        assert_eq!(spool.find(&item.id()), Some(item.index()));
    }
    assert!(spool.size() < 200_000, "{}", spool.size());
}

#[tokio::test]
async fn twins_are_not_kept_and_other_versions_are() {
    let new = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"a","name":"x"}}"#;
    let old = r#"{"apiVersion":"apps/v1beta1","kind":"Deployment","metadata":{"namespace":"a","name":"x"}}"#;
    let spool = read(&archive(&[
        ("resources/deployments.apps/namespaces/a/x.json", new.as_bytes()),
        ("resources/deployments.apps/v1-preferredversion/namespaces/a/x.json", new.as_bytes()),
        ("resources/deployments.apps/v1beta1/namespaces/a/x.json", old.as_bytes()),
    ]))
    .await
    .unwrap();
    let id = ItemId::namespaced(GroupResource::parse("deployments.apps"), "a", "x");
    assert_eq!(spool.len(), 1);
    assert_eq!(spool.items().count(), 1);
    assert_eq!(spool.versions(&id), ["v1beta1"]);
    let other = spool.find_version(&id, "v1beta1").unwrap();
    assert_eq!(spool.get(other).await.unwrap(), old);
    assert_eq!(spool.item(other).unwrap().version(), "v1beta1");
    assert_eq!(spool.find_version(&id, "v2"), None);
    assert_eq!(spool.find(&ItemId::cluster(GroupResource::parse("deployments.apps"), "x")), None);
}

#[rstest]
#[case::absolute("/etc/passwd", "absolute")]
#[case::up("resources/../../etc/passwd", "leads out")]
#[case::up_alone("..", "leads out")]
#[case::dot("./resources/pods/cluster/a.json", "no backup writer uses such a name")]
#[case::empty_part("resources//pods/cluster/a.json", "no backup writer uses such a name")]
#[case::backslash("resources/pods/cluster/..\\a.json", "no backup writer uses such a name")]
#[case::outside("other/file", "neither below")]
#[case::too_deep("resources/pods/namespaces/a/b/c/d.json", "neither below")]
#[case::too_flat("resources/pods.json", "neither below")]
#[case::no_json("resources/pods/cluster/a.yaml", "not a .json")]
#[case::no_name("resources/pods/cluster/.json", "not a .json")]
#[case::long(&format!("resources/pods/cluster/{}.json", "x".repeat(2000)), "longer than any name")]
#[tokio::test]
async fn a_name_that_no_backup_writer_makes_is_refused(#[case] name: &str, #[case] reason: &str) {
    let content = pod();
    let error = read(&archive(&[(POD, &content), (name, b"{}")])).await.unwrap_err();
    let SpoolError::Entry { name: named, problem } = &error else { panic!("{error}") };
    assert_eq!(named, name);
    assert!(problem.contains(reason), "{problem}");
}

#[tokio::test]
async fn an_entry_that_is_there_twice_is_refused() {
    let content = pod();
    let error = read(&archive(&[(POD, &content), (POD, &content)])).await.unwrap_err();
    assert!(matches!(error, SpoolError::Entry { problem: "it occurs twice", .. }), "{error}");
}

#[rstest]
#[case::symbolic(::tar::EntryType::Symlink)]
#[case::hard(::tar::EntryType::Link)]
#[case::directory(::tar::EntryType::Directory)]
#[case::device(::tar::EntryType::Char)]
#[case::pipe(::tar::EntryType::Fifo)]
#[case::sparse(::tar::EntryType::GNUSparse)]
#[case::global(::tar::EntryType::XGlobalHeader)]
#[tokio::test]
async fn entries_that_are_no_files_are_refused(#[case] kind: ::tar::EntryType) {
    let mut builder = ::tar::Builder::new(Vec::new());
    let mut header = ::tar::Header::new_gnu();
    header.set_path(POD).unwrap();
    header.set_entry_type(kind);
    header.set_size(0);
    header.set_cksum();
    builder.append(&header, &[][..]).unwrap();
    let error = read(&compress(&builder.into_inner().unwrap()).unwrap()).await.unwrap_err();
    assert!(matches!(error, SpoolError::Entry { .. }), "{error}");
}

#[rstest]
#[case::gnu(true)]
#[case::pax(false)]
#[tokio::test]
async fn long_names_of_other_writers_are_read(#[case] gnu: bool) {
    let name = "x".repeat(250);
    let path = format!("resources/widgets.example.com/namespaces/{}/{name}.json", "n".repeat(63));
    let json = object("Widget", &"n".repeat(63), &name).replace("\"v1\"", "\"example.com/v1\"");
    let mut out = Vec::new();
    if gnu {
        let mut builder = ::tar::Builder::new(&mut out);
        let mut header = ::tar::Header::new_gnu();
        header.set_size(json.len() as u64);
        builder.append_data(&mut header, &path, json.as_bytes()).unwrap();
        builder.finish().unwrap();
    } else {
        out = plain(&[(&path, json.as_bytes())]);
        written::end(&mut out);
    }
    let spool = read(&compress(&out).unwrap()).await.unwrap();
    assert_eq!(spool.items().next().unwrap().name(), name);
}

#[rstest]
#[case::text(b"hello, I am no archive")]
#[case::zip(b"PK\x03\x04 and more")]
#[case::zstd(b"\x28\xb5\x2f\xfd and more")]
#[tokio::test]
async fn what_is_not_gzip_is_refused(#[case] stored: &[u8]) {
    let error = read(stored).await.unwrap_err();
    assert!(matches!(error, SpoolError::NotGzip(_)), "{error}");
}

#[tokio::test]
async fn an_empty_object_is_refused() {
    assert!(matches!(read(b"").await.unwrap_err(), SpoolError::Damaged(_)));
}

#[tokio::test]
async fn an_archive_that_is_cut_anywhere_is_refused() {
    let content = pod();
    let stored = archive(&[("metadata/version", b"1.1.0\n"), (POD, &content)]);
    for length in 0..stored.len() {
        let error = read(&stored[..length]).await.unwrap_err();
        assert!(matches!(error, SpoolError::Damaged(_) | SpoolError::NotGzip(_)), "{length}: {error}");
    }
    read(&stored).await.unwrap();
}

#[tokio::test]
async fn an_archive_that_is_cut_between_members_is_refused() {
    let content = pod();
    let error = read(&compress(&plain(&[(POD, &content)])).unwrap()).await.unwrap_err();
    assert!(error.to_string().contains("ends unexpectedly"), "{error}");
}

#[tokio::test]
async fn what_follows_the_end_is_refused() {
    let mut out = plain(&[(POD, &pod())]);
    written::end(&mut out);
    out.extend(plain(&[("resources/pods/namespaces/shop/more.json", &pod())]));
    let error = read(&compress(&out).unwrap()).await.unwrap_err();
    assert!(error.to_string().contains("after the end"), "{error}");
}

#[tokio::test]
async fn a_bit_that_flipped_is_noticed() {
    let content = pod();
    let mut stored = archive(&[(POD, &content)]);
    let middle = stored.len() / 2;
    stored[middle] ^= 0x10;
    assert!(read(&stored).await.is_err());
}

#[rstest]
#[case::next_minor("1.2.0\n", false)]
#[case::next_major("2\n", false)]
#[case::patch("1.1.9\n", true)]
#[case::same("1.1.0\n", true)]
#[case::old("1\n", true)]
#[tokio::test]
async fn a_newer_format_is_refused(#[case] version: &str, #[case] taken: bool) {
    let result = read(&archive(&[("metadata/version", version.as_bytes())])).await;
    match result {
        Ok(spool) => assert!(taken && spool.is_empty()),
        Err(error) => assert!(!taken && matches!(error, SpoolError::Newer { .. }), "{error}"),
    }
}

#[tokio::test]
async fn a_bomb_is_refused_before_it_fills_the_disk() {
    let zeros = vec![b' '; 4 * 1024 * 1024];
    let names: Vec<String> = (0..40).map(|number| format!("resources/a/cluster/{number}.json")).collect();
    let entries: Vec<_> = names.iter().map(|name| (name.as_str(), zeros.as_slice())).collect();
    let error = read(&archive(&entries)).await.unwrap_err();
    assert!(matches!(error, SpoolError::TooLarge { .. }), "{error}");
    assert!(error.to_string().contains("a ratio of more than"), "{error}");
}

#[tokio::test]
async fn too_many_entries_are_refused() {
    let names: Vec<String> = (0..101).map(|number| format!("metadata/{number}")).collect();
    let entries: Vec<_> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    let limits = SpoolLimits { entries: 100, ..SpoolLimits::default() };
    let error = read_with(&archive(&entries), limits).await.unwrap_err();
    assert!(error.to_string().contains("more than 100 entries"), "{error}");
}

#[tokio::test]
async fn an_entry_that_is_too_large_is_refused_by_its_header() {
    let limits = SpoolLimits { entry_bytes: 10, ..SpoolLimits::default() };
    let error = read_with(&archive(&[(POD, &pod())]), limits).await.unwrap_err();
    assert!(error.to_string().contains("the limit is 10"), "{error}");
}

#[tokio::test]
async fn a_size_that_is_a_lie_takes_no_memory() {
    let mut block = Vec::new();
    written::append(&mut block, POD, b"", 0);
    block[124..135].copy_from_slice(b"77777777777");
    let sum: u32 = block[..512]
        .iter()
        .enumerate()
        .map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) })
        .sum();
    block[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
    let error = read(&compress(&block).unwrap()).await.unwrap_err();
    assert!(matches!(error, SpoolError::TooLarge { .. }), "{error}");
}

#[tokio::test]
async fn too_little_space_is_reported_before_anything_is_read() {
    let stored = archive(&[(POD, &pod())]);
    let limits = SpoolLimits { spool_bytes: 10, ..SpoolLimits::default() };
    let error = read_with(&stored, limits).await.unwrap_err();
    let SpoolError::Space { free, needed, .. } = error else { panic!("{error}") };
    assert_eq!((free, needed), (10, stored.len() as u64));
}

#[tokio::test]
async fn too_little_space_is_noticed_while_it_fills() {
    let json = |number: usize| {
        let noise: String = (0..2000)
            .map(|at| char::from(b'a' + u8::try_from((at * at * number + at / 7) % 26).unwrap()))
            .collect();
        object("A", "n", &format!("c{number}")).replace("\"v1\"", &format!("\"v1\",\"x\":\"{noise}\""))
    };
    let entries: Vec<_> =
        (0..500).map(|n| (format!("resources/a/namespaces/n/c{n}.json"), json(n).into_bytes())).collect();
    let borrowed: Vec<_> =
        entries.iter().map(|(name, content)| (name.as_str(), content.as_slice())).collect();
    let stored = archive(&borrowed);
    let directory = tempfile::tempdir().unwrap();
    let unsized_archive = ObjectReading { size: None, ..reading(&stored, 4096) };
    let limits = SpoolLimits { spool_bytes: 1000, ..SpoolLimits::default() };
    let error = Spool::read(unsized_archive, directory.path(), limits).await.unwrap_err();
    assert!(matches!(error, SpoolError::Space { .. }), "{error}");
}

#[tokio::test]
async fn a_directory_that_is_not_there_is_named() {
    let error =
        Spool::read(reading(b"", 1), Path::new("/nowhere"), SpoolLimits::default()).await.unwrap_err();
    assert!(error.to_string().contains("/nowhere"), "{error}");
}

#[tokio::test]
async fn an_error_of_storage_is_reported_unchanged() {
    let stored = archive(&[(POD, &pod())]);
    let failing =
        stream::iter([Ok(Bytes::copy_from_slice(&stored[..20])), Err(StoreError::Source("gone".into()))]);
    let directory = tempfile::tempdir().unwrap();
    let archive = ObjectReading { size: None, body: failing.boxed() };
    let error = Spool::read(archive, directory.path(), SpoolLimits::default()).await.unwrap_err();
    assert!(matches!(&error, SpoolError::Storage(StoreError::Source(text)) if text == "gone"), "{error}");
}

#[rstest]
#[case::no_json("hello")]
#[case::name_beyond_all_measure(&format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{}"}}}}"#, "x".repeat(9000)))]
#[case::half("{\"apiVersion\":\"v1\"")]
#[case::no_kind(r#"{"apiVersion":"v1","metadata":{"name":"web","namespace":"shop"}}"#)]
#[case::other_name(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"other","namespace":"shop"}}"#)]
#[case::other_namespace(
    r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"kube-system"}}"#
)]
#[case::other_group(
    r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Pod","metadata":{"name":"web","namespace":"shop"}}"#
)]
#[case::group_that_leads_out(
    r#"{"apiVersion":"/../rbac.authorization.k8s.io/v1","kind":"Pod","metadata":{"name":"web","namespace":"shop"}}"#
)]
#[tokio::test]
async fn an_item_that_is_no_object_is_listed_and_the_others_are_kept(#[case] content: &str) {
    let other = object("Pod", "shop", "fine");
    let spool = read(&archive(&[
        (POD, content.as_bytes()),
        ("resources/pods/namespaces/shop/fine.json", other.as_bytes()),
    ]))
    .await
    .unwrap();
    assert_eq!(spool.len(), 1);
    assert_eq!(spool.unreadable()[0].id.name, "web");
    assert!(spool.unreadable()[0].problem.len() < 600);
}

#[rstest]
#[case::uuid("f60eec54-c6cd-4fff-a5d9-6d8c52cbb655")]
#[case::text("any other text")]
fn equal_uids_are_equal_and_others_are_not(#[case] text: &str) {
    assert_eq!(Uid::new(text), Uid::new(text));
    assert_ne!(Uid::new(text), Uid::new("f60eec54-c6cd-4fff-a5d9-6d8c52cbb656"));
    assert_eq!(Uid::new(""), None);
}

#[test]
fn several_members_are_one_archive() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut out = plain(&[(POD, &pod())]);
    written::end(&mut out);
    let mut stored = Vec::new();
    for part in out.chunks(700) {
        stored.write_all(&compress(part).unwrap()).unwrap();
    }
    assert_eq!(runtime.block_on(read(&stored)).unwrap().len(), 1);
}
