#include "egress/keystore.h"

#include <openssl/evp.h>
#include <openssl/pkcs12.h>
#include <openssl/x509.h>
#include <string.h>

#include "tap.h"

// No entries, with the digest of "changeit": written by keytool of JDK 17.
static const uint8_t empty[] = {0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2, 0, 0, 0, 0};

static void seal(struct buf *out)
{
	static const char salt[] = "\0c\0h\0a\0n\0g\0e\0i\0tMighty Aphrodite";
	auto_buf all = BUF_INIT(4096);
	uint8_t digest[20];

	buf_add(&all, salt, sizeof(salt) - 1);
	buf_str(&all, buf_view(out));
	EVP_Digest(all.at, all.len, digest, NULL, EVP_sha1(), NULL);
	buf_add(out, digest, sizeof(digest));
}

TEST(jks, "one certificate more, once, in a keystore of Java")
{
	auto_buf old = BUF_INIT(4096), fresh = BUF_INIT(4096), again = BUF_INIT(4096);

	buf_add(&old, empty, sizeof(empty));
	seal(&old);
	CHECK_OK(keystore_add(buf_view(&old), "cove-box-1", STR("DER"), &fresh));
	CHECK(fresh.len == old.len + 4 + 2 + 10 + 8 + 2 + 5 + 4 + 3 && fresh.at[11] == 1);
	CHECK_OK(keystore_add(buf_view(&fresh), "cove-box-1", STR("DER"), &again));
	CHECK(again.len == 0);
	CHECK_OK(keystore_add(buf_view(&fresh), "cove-box-2", STR("DER"), &again));
	CHECK(again.at[11] == 2);
}

TEST(others, "what is no keystore, is cut or has another password is refused")
{
	auto_buf old = BUF_INIT(4096), fresh = BUF_INIT(4096);

	buf_add(&old, empty, sizeof(empty));
	seal(&old);
	old.at[old.len - 1] ^= 1;
	CHECK_ERR(keystore_add(buf_view(&old), "a", STR("DER"), &fresh), INVALID);
	CHECK_ERR(keystore_add((struct str){old.at, 12}, "a", STR("DER"), &fresh), INVALID);
	CHECK_ERR(keystore_add(STR(""), "a", STR("DER"), &fresh), INVALID);
	CHECK_ERR(keystore_add(STR("0123456789"), "a", STR("DER"), &fresh), INVALID);
	CHECK_ERR(keystore_add(STR("\x30\x80garbage"), "a", STR("DER"), &fresh), INVALID);
	CHECK(fresh.len == 0);
}

TEST(pkcs12, "certificates of PKCS #12 that are not encrypted are kept, in the older form")
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	STACK_OF(X509) *all = sk_X509_new_null();
	auto_buf fresh = BUF_INIT(16384);
	unsigned char *der = NULL;
	X509 *cert = X509_new();
	PKCS12 *store;
	int len;

	X509_set_pubkey(cert, key);
	X509_gmtime_adj(X509_getm_notBefore(cert), 0);
	X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
	X509_sign(cert, key, EVP_sha256());
	sk_X509_push(all, cert);
	store = PKCS12_create(NULL, NULL, NULL, NULL, all, -1, -1, 0, -1, 0);
	len = i2d_PKCS12(store, &der);
	CHECK(len > 0);
	CHECK_OK(keystore_add((struct str){(char *)der, (size_t)len}, "cove-box-1", STR("DER"),
			      &fresh));
	CHECK(fresh.len > 12 && !memcmp(fresh.at, empty, 8) && fresh.at[11] == 2);
	OPENSSL_free(der);
	PKCS12_free(store);
	sk_X509_free(all);
	X509_free(cert);
	EVP_PKEY_free(key);
}
