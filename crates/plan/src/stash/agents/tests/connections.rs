//! Connection URLs: any scheme or none.

use rstest::rstest;
use serde_json::json;

use crate::stash::agents::{AgentError, Connection, Database};
use crate::stash::databases::KeySource;

#[rstest]
#[case::seed("https://quick-elasticsearch.demo.svc:9200", "quick-elasticsearch.demo.svc", Some(9200), None)]
#[case::no_scheme("mysql.demo.svc:3306", "mysql.demo.svc", Some(3306), None)]
#[case::no_port("mysql.demo.svc", "mysql.demo.svc", None, None)]
#[case::port_of_its_scheme("https://db:443", "db", Some(443), None)]
#[case::path("postgres://db:5432/shop?sslmode=disable", "db", Some(5432), Some("shop"))]
#[case::driver("tcp(db:3306)/shop", "db", Some(3306), Some("shop"))]
#[case::driver_with_scheme("mysql://tcp(db:3306)/", "db", Some(3306), None)]
#[case::address("10.0.0.7:5432", "10.0.0.7", Some(5432), None)]
#[case::address_of_version_6("[fd00::7]:5432", "fd00::7", Some(5432), None)]
fn host_and_port_count(
    #[case] url: &str,
    #[case] host: &str,
    #[case] port: Option<u16>,
    #[case] database: Option<&str>,
) {
    let found = Connection::of_url(url).unwrap();
    assert_eq!((found.host.as_str(), found.port, found.database.as_deref()), (host, port, database));
    assert_eq!(found.url, url);
}

#[rstest]
#[case("")]
#[case("https://")]
#[case("db:port")]
#[case("db:70000")]
#[case("db:0")]
#[case("tcp(db:3306")]
#[case("-oProxyCommand=x")]
fn what_is_no_address_is_refused(#[case] url: &str) {
    let error = Connection::of_url(url).unwrap_err().to_string();
    assert!(error.contains("is no address") && error.contains("mysql.example.com:3306"), "{error}");
}

#[test]
fn a_password_in_the_url_is_refused_and_not_shown() {
    assert_eq!(Connection::of_url("mysql://root:hidden@db:3306"), Err(AgentError::Userinfo));
    let error = Connection::of_url("mysql://root:hidden@db:port").unwrap_err().to_string();
    assert!(!error.contains("hidden"), "{error}");
}

#[test]
fn credentials_are_references_in_the_environment() {
    let connection = Connection::of_url("https://db:9200").unwrap();
    let key = |key: &str| KeySource::Secret { name: "mysql-secret".to_owned(), key: key.to_owned() };
    let database = Database::Named("shop".to_owned());
    let env = connection.env(&database, Some(&key("ADMIN_USER")), Some(&key("ROOT_PASSWORD")));
    let reference = |key: &str| json!({"secretKeyRef": {"name": "mysql-secret", "key": key}});
    assert_eq!(
        env,
        [
            json!({"name": "DB_HOST", "value": "db"}),
            json!({"name": "DB_PORT", "value": "9200"}),
            json!({"name": "DB_NAME", "value": "shop"}),
            json!({"name": "DB_URL", "value": "https://db:9200"}),
            json!({"name": "DB_USER", "valueFrom": reference("ADMIN_USER")}),
            json!({"name": "DB_PASSWORD", "valueFrom": reference("ROOT_PASSWORD")}),
        ]
    );
}
