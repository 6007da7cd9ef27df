// A certificate authority per box. Its key is a number below the order of P-256, derived from the
// seed. Its certificate is signed again each time, with the same names and key, which is all that a
// client compares. Leaf certificates are valid for a month and cached for a day; they share one key
// that lives as long as the daemon.
#include "egress/authority.h"

#include <arpa/inet.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/obj_mac.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "loop/offload.h"
#include "types/hostname.h"

#define LEAVES_MAX 128
#define LEAF_LIVES_S (30L * 24 * 3600)
#define LEAF_KEPT_MS (24L * 3600 * 1000)
#define BACK_S (24L * 3600) // the box's clock may be behind

struct leaf {
	SSL_CTX *context;
	int64_t until; // monotonic
};

struct authority {
	EVP_PKEY *key, *leaf_key;
	X509 *own;
	struct map *leaves; // name -> leaf
};

// ------------------------------------------------------------------------------------- the key

static bool draw_number(const uint8_t seed[SECRET_HASH], const char *box_id, const BIGNUM *order,
			BIGNUM *out)
{
	uint8_t hash[SECRET_HASH];
	char text[160];

	for (int i = 0; i < 64; i++) {
		int len = snprintf(text, sizeof(text), "egress authority %d of %s", i, box_id);

		secret_hmac(seed, text, (size_t)len, hash);
		BN_bin2bn(hash, sizeof(hash), out);
		secret_wipe(hash, sizeof(hash));
		if (!BN_is_zero(out) && BN_cmp(out, order) < 0)
			return true;
	}
	return false;
}

static EVP_PKEY *authority_make_key(const EC_GROUP *group, const BIGNUM *number)
{
	EC_POINT *point = EC_POINT_new(group);
	OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
	OSSL_PARAM *params = NULL;
	EVP_PKEY *key = NULL;
	unsigned char pub[65];

	if (EC_POINT_mul(group, point, number, NULL, NULL, NULL) == 1 &&
	    EC_POINT_point2oct(group, point, POINT_CONVERSION_UNCOMPRESSED, pub, sizeof(pub),
			       NULL) == sizeof(pub) &&
	    OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, "P-256", 0) &&
	    OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, pub, sizeof(pub)) &&
	    OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_PRIV_KEY, number))
		params = OSSL_PARAM_BLD_to_param(build);
	if (!params || EVP_PKEY_fromdata_init(context) != 1 ||
	    EVP_PKEY_fromdata(context, &key, EVP_PKEY_KEYPAIR, params) != 1)
		key = NULL;
	OSSL_PARAM_free(params);
	OSSL_PARAM_BLD_free(build);
	EVP_PKEY_CTX_free(context);
	EC_POINT_free(point);
	return key;
}

static EVP_PKEY *derive_key(const uint8_t seed[SECRET_HASH], const char *box_id)
{
	EC_GROUP *group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1);
	BIGNUM *number = BN_secure_new();
	EVP_PKEY *key = NULL;

	if (group && number && draw_number(seed, box_id, EC_GROUP_get0_order(group), number))
		key = authority_make_key(group, number);
	BN_clear_free(number);
	EC_GROUP_free(group);
	return key;
}

// ---------------------------------------------------------------------------------- certificates

static bool add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509_EXTENSION *extension;
	X509V3_CTX context;
	bool good;

	X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
	extension = X509V3_EXT_nconf_nid(NULL, &context, nid, value);
	good = extension && X509_add_ext(cert, extension, -1) == 1;
	X509_EXTENSION_free(extension);
	return good;
}

static bool set_serial(X509 *cert)
{
	unsigned char bytes[16];
	BIGNUM *number;
	bool good;

	secret_random(bytes, sizeof(bytes));
	bytes[0] = (bytes[0] & 0x7f) | 0x40;
	number = BN_bin2bn(bytes, sizeof(bytes), NULL);
	good = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert));
	BN_free(number);
	return good;
}

static X509 *authority_begin(EVP_PKEY *key, const char *title)
{
	X509 *cert = X509_new();
	X509_NAME *subject = cert ? X509_get_subject_name(cert) : NULL;

	if (subject && X509_set_version(cert, X509_VERSION_3) == 1 && set_serial(cert) &&
	    X509_set_pubkey(cert, key) == 1 &&
	    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const void *)title, -1, -1,
				       0) == 1)
		return cert;
	X509_free(cert);
	return NULL;
}

static X509 *make_own(EVP_PKEY *key, const char *box_id)
{
	char title[65];
	X509 *cert;

	snprintf(title, sizeof(title), "cove %.48s", box_id);
	cert = authority_begin(key, title);
	if (cert && ASN1_TIME_set_string_X509(X509_getm_notBefore(cert), "20200101000000Z") == 1 &&
	    ASN1_TIME_set_string_X509(X509_getm_notAfter(cert), "20491231235959Z") == 1 &&
	    X509_set_issuer_name(cert, X509_get_subject_name(cert)) == 1 &&
	    add_extension(cert, cert, NID_subject_key_identifier, "hash") &&
	    add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
	    add_extension(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign") &&
	    X509_sign(cert, key, EVP_sha256()) > 0)
		return cert;
	X509_free(cert);
	return NULL;
}

static bool authority_add_name(X509 *cert, X509 *issuer, const char *name)
{
	char text[HOSTNAME_MAX + 8];
	unsigned char raw[16];
	bool literal = inet_pton(AF_INET, name, raw) == 1 || inet_pton(AF_INET6, name, raw) == 1;

	snprintf(text, sizeof(text), "%s:%s", literal ? "IP" : "DNS", name);
	return add_extension(cert, issuer, NID_subject_alt_name, text);
}

static X509 *authority_make_leaf(const struct authority *authority, const char *name)
{
	char title[65];
	X509 *cert;

	snprintf(title, sizeof(title), "%.64s", name);
	cert = authority_begin(authority->leaf_key, title);
	if (cert && X509_gmtime_adj(X509_getm_notBefore(cert), -BACK_S) &&
	    X509_gmtime_adj(X509_getm_notAfter(cert), LEAF_LIVES_S) &&
	    X509_set_issuer_name(cert, X509_get_subject_name(authority->own)) == 1 &&
	    add_extension(cert, authority->own, NID_subject_key_identifier, "hash") &&
	    add_extension(cert, authority->own, NID_authority_key_identifier, "keyid") &&
	    add_extension(cert, authority->own, NID_basic_constraints, "critical,CA:FALSE") &&
	    add_extension(cert, authority->own, NID_key_usage, "critical,digitalSignature") &&
	    add_extension(cert, authority->own, NID_ext_key_usage, "serverAuth") &&
	    authority_add_name(cert, authority->own, name) &&
	    X509_sign(cert, authority->key, EVP_sha256()) > 0)
		return cert;
	X509_free(cert);
	return NULL;
}

// -------------------------------------------------------------------------------------- contexts

// HTTP/1.1, or no ALPN: a client that only speaks h2 is not served.
static int authority_choose(SSL *ssl, const unsigned char **out, unsigned char *out_len,
			    const unsigned char *in, unsigned int in_len, void *arg)
{
	static const unsigned char ours[] = "\x08http/1.1";

	(void)ssl;
	(void)arg;
	return SSL_select_next_proto((unsigned char **)out, out_len, ours, sizeof(ours) - 1, in,
				     in_len) == OPENSSL_NPN_NEGOTIATED
		       ? SSL_TLSEXT_ERR_OK
		       : SSL_TLSEXT_ERR_ALERT_FATAL;
}

struct signing {
	const struct authority *authority;
	const char *name;
	SSL_CTX *context;
};

static void authority_sign(void *arg)
{
	struct signing *signing = arg;
	SSL_CTX *context = SSL_CTX_new(TLS_server_method());
	X509 *leaf = authority_make_leaf(signing->authority, signing->name);

	if (context && leaf && SSL_CTX_use_certificate(context, leaf) == 1 &&
	    SSL_CTX_use_PrivateKey(context, signing->authority->leaf_key) == 1) {
		SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
		SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION |
						     SSL_OP_IGNORE_UNEXPECTED_EOF);
		SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
		SSL_CTX_set_num_tickets(context, 0);
		SSL_CTX_set_alpn_select_cb(context, authority_choose, NULL);
		signing->context = context;
		context = NULL;
	}
	X509_free(leaf);
	SSL_CTX_free(context);
}

static void leaf_free(struct leaf *leaf)
{
	if (!leaf)
		return;
	SSL_CTX_free(leaf->context);
	free(leaf);
}

// Open connections are unaffected: an SSL holds a reference to its context.
static void forget_one(struct authority *authority)
{
	size_t at = 0;
	struct str key;
	void *value;

	if (map_count(authority->leaves) >= LEAVES_MAX &&
	    map_next(authority->leaves, &at, &key, &value))
		leaf_free(map_take(authority->leaves, key));
}

fallible authority_context(struct authority *authority, const char *name, SSL_CTX **out)
{
	struct leaf *leaf = map_get(authority->leaves, str_of(name));
	struct signing signing = {.authority = authority, .name = name};

	if (leaf && leaf->until > clock_ms()) {
		*out = leaf->context;
		return OK;
	}
	offload_run(authority_sign, &signing);
	if (!signing.context)
		return err_sys(0, "sign the name %s", name);
	// Another task may have signed it meanwhile.
	leaf_free(map_take(authority->leaves, str_of(name)));
	forget_one(authority);
	leaf = mem_new_of(struct leaf);
	*leaf = (struct leaf){.context = signing.context, .until = clock_ms() + LEAF_KEPT_MS};
	map_put(authority->leaves, str_of(name), leaf);
	*out = leaf->context;
	return OK;
}

struct authority *authority_new(const uint8_t seed[SECRET_HASH], const char *box_id)
{
	struct authority *authority = mem_new_of(struct authority);

	authority->leaves = map_new();
	authority->key = derive_key(seed, box_id);
	authority->leaf_key = EVP_EC_gen("P-256");
	if (authority->key)
		authority->own = make_own(authority->key, box_id);
	if (authority->own && authority->leaf_key)
		return authority;
	authority_free(authority);
	return NULL;
}

void authority_free(struct authority *authority)
{
	size_t at = 0;
	struct str key;
	void *value;

	if (!authority)
		return;
	while (map_next(authority->leaves, &at, &key, &value))
		leaf_free(value);
	map_free(authority->leaves);
	X509_free(authority->own);
	EVP_PKEY_free(authority->key);
	EVP_PKEY_free(authority->leaf_key);
	free(authority);
}

unsigned long authority_hash(const struct authority *authority)
{
	return X509_subject_name_hash(authority->own);
}

fallible authority_write(const struct authority *authority, struct buf *out_pem)
{
	BIO *bio = BIO_new(BIO_s_mem());
	char *at = NULL;
	long len = 0;

	if (bio && PEM_write_bio_X509(bio, authority->own) == 1)
		len = BIO_get_mem_data(bio, &at);
	if (len > 0)
		buf_add(out_pem, at, (size_t)len);
	BIO_free(bio);
	return len > 0 && buf_ok(out_pem) ? OK : err_sys(0, "write a certificate");
}

fallible authority_write_der(const struct authority *authority, struct buf *out)
{
	unsigned char *der = NULL;
	int len = i2d_X509(authority->own, &der);

	if (len > 0)
		buf_add(out, der, (size_t)len);
	OPENSSL_free(der);
	return len > 0 && buf_ok(out) ? OK : err_sys(0, "write a certificate");
}
