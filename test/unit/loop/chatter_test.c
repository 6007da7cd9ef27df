// Two ends of TLS in memory; what one says is carried to the other by hand.
#include "loop/chatter.h"

#include <openssl/x509.h>

#include "tap.h"

static SSL_CTX *contexts[2]; // client, server
static SSL *client, *server;

static SSL *end_new(SSL_CTX *context)
{
	SSL *ssl = SSL_new(context);

	SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
	BIO_set_mem_eof_return(SSL_get_rbio(ssl), -1);
	return ssl;
}

static void certify(SSL_CTX *context)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = X509_new();

	X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
	X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
	X509_set_pubkey(cert, key);
	X509_sign(cert, key, EVP_sha256());
	CHECK(SSL_CTX_use_certificate(context, cert) == 1);
	CHECK(SSL_CTX_use_PrivateKey(context, key) == 1);
	X509_free(cert);
	EVP_PKEY_free(key);
}

static void carry(SSL *from, SSL *to)
{
	char room[4096];
	int n;

	while ((n = BIO_read(SSL_get_wbio(from), room, sizeof(room))) > 0)
		BIO_write(SSL_get_rbio(to), room, n);
}

static void begin(int version)
{
	contexts[0] = SSL_CTX_new(TLS_client_method());
	contexts[1] = SSL_CTX_new(TLS_server_method());
	certify(contexts[1]);
	SSL_CTX_set_max_proto_version(contexts[0], version);
	client = end_new(contexts[0]);
	server = end_new(contexts[1]);
	SSL_set_connect_state(client);
	SSL_set_accept_state(server);
	for (int i = 0; i < 4; i++) {
		SSL_do_handshake(client);
		carry(client, server);
		SSL_do_handshake(server);
		carry(server, client);
	}
	CHECK(SSL_is_init_finished(client) && SSL_is_init_finished(server));
}

static void finish(void)
{
	SSL_free(client);
	SSL_free(server);
	SSL_CTX_free(contexts[0]);
	SSL_CTX_free(contexts[1]);
}

static void update_keys(int times)
{
	for (int i = 0; i < times; i++) {
		SSL_key_update(client, SSL_KEY_UPDATE_REQUESTED);
		SSL_do_handshake(client);
	}
	carry(client, server);
}

TEST(flood, "a flood of new keys ends with the seventeenth, within one call")
{
	struct chatter chatter;
	char room[64];

	begin(TLS1_3_VERSION);
	chatter_watch(&chatter, server);
	update_keys(1000);
	CHECK(SSL_read(server, room, sizeof(room)) <= 0);
	CHECK(chatter.over && chatter.count == CHATTER_MAX + 1);
	CHECK(SSL_read(server, room, sizeof(room)) <= 0 && chatter.count == CHATTER_MAX + 1);
	finish();
}

TEST(drip, "data in between is no excuse")
{
	struct chatter chatter;
	char room[64];
	int got = 0;

	begin(TLS1_3_VERSION);
	chatter_watch(&chatter, server);
	for (int i = 0; i < 100 && !chatter.over; i++) {
		update_keys(1);
		SSL_write(client, "x", 1);
		carry(client, server);
		got += SSL_read(server, room, sizeof(room)) == 1;
	}
	CHECK(chatter.over && got == CHATTER_MAX);
	finish();
}

TEST(honest, "tickets, a few new keys, and data of any length are no chatter")
{
	static const int versions[] = {TLS1_3_VERSION, TLS1_2_VERSION};
	struct chatter chatters[2];
	char room[64];

	for (int i = 0; i < 2; i++) {
		begin(versions[i]);
		chatter_watch(&chatters[0], client);
		chatter_watch(&chatters[1], server);
		if (i == 0)
			update_keys(3);
		for (int k = 0; k < 1000; k++) {
			CHECK(SSL_write(client, "x", 1) == 1);
			carry(client, server);
			CHECK(SSL_read(server, room, sizeof(room)) == 1);
			CHECK(SSL_write(server, "y", 1) == 1);
			carry(server, client);
			CHECK(SSL_read(client, room, sizeof(room)) == 1);
		}
		CHECK(!chatters[0].over && !chatters[1].over);
		finish();
	}
}
