// The other end is a thread that blocks.
#include "egress/tls_stream.h"

#include <openssl/x509.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include "loop/offload.h"
#include "unit/loop/inside.h"

static SSL_CTX *certified(void)
{
	SSL_CTX *context = SSL_CTX_new(TLS_server_method());
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = X509_new();

	X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
	X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
	X509_set_pubkey(cert, key);
	X509_sign(cert, key, EVP_sha256());
	SSL_CTX_use_certificate(context, cert);
	SSL_CTX_use_PrivateKey(context, key);
	X509_free(cert);
	EVP_PKEY_free(key);
	return context;
}

struct peer {
	int fd, updates;
};

// A word, new keys, a word.
static void *talk(void *arg)
{
	const struct peer *peer = arg;
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(context);
	char room[4096];

	SSL_set_fd(ssl, peer->fd);
	if (SSL_connect(ssl) == 1 && SSL_write(ssl, "one", 3) == 3) {
		for (int i = 0; i < peer->updates; i++)
			if (SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED) != 1 ||
			    SSL_do_handshake(ssl) != 1)
				break;
		SSL_write(ssl, "two", 3);
	}
	while (recv(peer->fd, room, sizeof(room), 0) > 0)
		;
	SSL_free(ssl);
	SSL_CTX_free(context);
	close(peer->fd);
	return NULL;
}

static void hear(int updates, struct err **out)
{
	auto_tls_stream tls = NULL;
	SSL_CTX *context = certified();
	struct peer peer = {.updates = updates};
	struct stream stream;
	struct err *err = OK;
	pthread_t thread;
	char room[64];
	size_t n = 0;
	int pair[2];

	signal(SIGPIPE, SIG_IGN);
	CHECK_OK(offload_open(inside_loop, 1));
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	peer.fd = pair[1];
	pthread_create(&thread, NULL, talk, &peer);
	CHECK_OK(stream_open(&stream, inside_loop, pair[0]));
	CHECK_OK(tls_stream_accept(&stream, context, 5000, &tls));
	CHECK_OK(tls_stream_read(tls, room, sizeof(room), inside_now() + 5000, &n));
	CHECK(n == 3 && !memcmp(room, "one", 3));
	err = tls_stream_read(tls, room, sizeof(room), inside_now() + 5000, &n);
	CHECK(err || (n == 3 && !memcmp(room, "two", 3)));
	if (err) // for good
		CHECK_ERR(tls_stream_read(tls, room, sizeof(room), inside_now() + 5000, &n),
			  BAD_PEER);
	stream_close(&stream);
	pthread_join(thread, NULL);
	SSL_CTX_free(context);
	offload_close();
	*out = err;
}

TASK_TEST(few, "a few new keys are answered, and the data behind them is read")
{
	struct err *err = OK;

	hear(10, &err);
	CHECK_OK(err);
}

TASK_TEST(flood, "a peer that sends new keys and no data is disconnected")
{
	struct err *err = OK;

	hear(1000, &err);
	CHECK_ERR(err, BAD_PEER);
}
