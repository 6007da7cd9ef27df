// JKS: a head (magic, version 2, count), the entries, and a SHA-1 of the password, a constant and
// all that precedes it. Numbers are big-endian, texts follow two bytes of length. An entry is
// appended without parsing the others; count and digest are updated.
//
// The file is the box's and hostile. Of JKS the head and the digest are read; PKCS #12 is parsed by
// OpenSSL without any decryption: its iteration count is chosen by the file.
#include "egress/keystore.h"

#include <openssl/evp.h>
#include <openssl/pkcs12.h>
#include <stdio.h>
#include <string.h>

#define MAGIC 0xfeedfeedu
#define VERSION 2u
#define HEAD 12
#define DIGEST 20
#define TRUSTED 2u // the tag of a trusted certificate
#define COUNT_MAX 10000u

static const char password[] = "\0c\0h\0a\0n\0g\0e\0i\0t"; // UTF-16, as in the digest

static void put_number(struct buf *out, uint64_t value, int bytes)
{
	while (bytes-- > 0)
		buf_char(out, (char)(value >> (8 * bytes) & 0xff));
}

static uint32_t keystore_read_number(const char *at)
{
	const uint8_t *bytes = (const uint8_t *)at;

	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

static void put_text(struct buf *out, struct str text)
{
	put_number(out, text.len, 2);
	buf_str(out, text);
}

static void keystore_put_entry(struct buf *out, struct str alias, struct str certificate)
{
	put_number(out, TRUSTED, 4);
	put_text(out, alias);
	put_number(out, 0, 8); // creation time
	put_text(out, STR("X.509"));
	put_number(out, certificate.len, 4);
	buf_str(out, certificate);
}

static bool digest_of(struct str body, uint8_t digest[DIGEST])
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	bool good = context && EVP_DigestInit_ex(context, EVP_sha1(), NULL) == 1 &&
		    EVP_DigestUpdate(context, password, sizeof(password) - 1) == 1 &&
		    EVP_DigestUpdate(context, "Mighty Aphrodite", 16) == 1 &&
		    EVP_DigestUpdate(context, body.at, body.len) == 1 &&
		    EVP_DigestFinal_ex(context, digest, NULL) == 1;

	EVP_MD_CTX_free(context);
	return good;
}

static fallible bad_keystore(void)
{
	return err_new(INVALID, "bad_keystore", "not a keystore of trusted certificates");
}

// Sets the count in the head, and appends the digest.
static fallible keystore_seal(struct buf *out, uint32_t count)
{
	uint8_t digest[DIGEST];

	if (!buf_ok(out) || out->len < HEAD)
		return err_new(TOO_LARGE, "file_too_large", "the keystore is too large");
	for (int i = 0; i < 4; i++)
		out->at[8 + i] = (char)(count >> (24 - 8 * i) & 0xff);
	if (!digest_of(buf_view(out), digest))
		return err_sys(0, "make the digest of a keystore");
	buf_add(out, digest, DIGEST);
	return buf_ok(out) ? OK : err_new(TOO_LARGE, "file_too_large", "the keystore is too large");
}

static fallible jks_add(struct str old, struct str alias, struct str certificate, struct buf *out)
{
	struct str body = {old.at, old.len - DIGEST};
	uint32_t count = keystore_read_number(old.at + 8);
	uint8_t digest[DIGEST];

	if (keystore_read_number(old.at + 4) != VERSION || count > COUNT_MAX ||
	    !digest_of(body, digest) || memcmp(digest, old.at + body.len, DIGEST) != 0)
		return bad_keystore();
	if (memmem(body.at, body.len, alias.at, alias.len))
		return OK;
	buf_str(out, body);
	keystore_put_entry(out, alias, certificate);
	return keystore_seal(out, count + 1);
}

// ------------------------------------------------------------------------------------- PKCS #12

static void bags_put(const STACK_OF(PKCS12_SAFEBAG) * bags, uint32_t *count, struct buf *out)
{
	for (int i = 0; i < sk_PKCS12_SAFEBAG_num(bags) && *count < COUNT_MAX; i++) {
		const PKCS12_SAFEBAG *bag = sk_PKCS12_SAFEBAG_value(bags, i);
		X509 *one = PKCS12_SAFEBAG_get_nid(bag) == NID_certBag
				    ? PKCS12_SAFEBAG_get1_cert(bag)
				    : NULL;
		unsigned char *der = NULL;
		int len = one ? i2d_X509(one, &der) : 0;
		char name[24];

		snprintf(name, sizeof(name), "ca-%u", *count);
		if (len > 0) {
			keystore_put_entry(out, str_of(name),
					   (struct str){(char *)der, (size_t)len});
			++*count;
		}
		OPENSSL_free(der);
		X509_free(one);
	}
}

static fallible pkcs12_add(struct str old, struct str alias, struct str certificate,
			   struct buf *out)
{
	const unsigned char *at = (const unsigned char *)old.at;
	PKCS12 *all = d2i_PKCS12(NULL, &at, (long)old.len);
	STACK_OF(PKCS7) *safes = all ? PKCS12_unpack_authsafes(all) : NULL;
	uint32_t count = 0;

	put_number(out, MAGIC, 4);
	put_number(out, VERSION, 4);
	put_number(out, 0, 4);
	for (int i = 0; i < sk_PKCS7_num(safes); i++) {
		PKCS7 *safe = sk_PKCS7_value(safes, i);
		STACK_OF(PKCS12_SAFEBAG) *bags = NULL;

		if (PKCS7_type_is_data(safe))
			bags = PKCS12_unpack_p7data(safe);
		bags_put(bags, &count, out);
		sk_PKCS12_SAFEBAG_pop_free(bags, PKCS12_SAFEBAG_free);
	}
	sk_PKCS7_pop_free(safes, PKCS7_free);
	PKCS12_free(all);
	if (!count) {
		buf_clear(out);
		return bad_keystore();
	}
	keystore_put_entry(out, alias, certificate);
	return keystore_seal(out, count + 1);
}

fallible keystore_add(struct str old, const char *alias, struct str certificate, struct buf *out)
{
	if (old.len >= HEAD + DIGEST && keystore_read_number(old.at) == MAGIC)
		return jks_add(old, str_of(alias), certificate, out);
	return old.len && old.at[0] == 0x30 ? pkcs12_add(old, str_of(alias), certificate, out)
					    : bad_keystore();
}
