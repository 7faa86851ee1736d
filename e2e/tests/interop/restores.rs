//! Each product restores backups of the other: every object exists and is equal.

use lifeboat_e2e::assert_same_objects;

use super::app::App;
use super::{Product, unique};

fn comes_back(name: &str, by: Product, through: Product) {
    let app = App::start(name);
    let before = app.objects();
    assert_eq!(before["Widget/one"]["size"], 3);
    let backup = unique(name);
    by.backup(&backup, &app.namespace.name);
    app.delete();
    through.restore(&backup);
    app.wait();
    assert_same_objects(&before, &app.objects());
}

#[test]
fn velero_restores_what_lifeboat_backed_up() {
    comes_back("ours", Product::Lifeboat, Product::Velero);
}

#[test]
fn lifeboat_restores_what_velero_backed_up() {
    comes_back("theirs", Product::Velero, Product::Lifeboat);
}
