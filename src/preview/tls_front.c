// The handshake costs a signature and parses untrusted bytes: it runs in a worker thread. After
// that a record costs a few microseconds and is handled on the loop: one task for each direction,
// between the client's socket and one end of a socketpair whose other end the server has. OpenSSL
// is called by one task at a time, since neither waits inside a call.
//
// close_notify is translated to a half-close, and back.
//
// syscalls: socketpair read write shutdown getpid
#include "preview/tls_front.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/mem.h"
#include "loop/chatter.h"
#include "loop/offload.h"
#include "loop/stream.h"

#define PIECE (16 * 1024) // of a record
#define IDLE_MS (2 * 60 * 60 * 1000)
#define WRITE_MS (15 * 60 * 1000)
#define SPREE_MAX (1024 * 1024)
#define RECORD_COST 4096 // overhead per record: one-byte records are many
#define LINGER_MS 3000	 // for the client to read the last bytes and to close
#define LIVE_MAX 4096

struct tls_front_keys {
	SSL_CTX *context;
};

struct talk {
	struct loop *loop;
	SSL *ssl;
	struct chatter chatter;
	struct stream net, inner;
	int pair; // the server's end; -1: passed on
	struct sockaddr_storage from;
	struct http_server *server;
	int result, want;  // of OpenSSL
	struct task *back; // NULL: ended
	struct condition over;
	int64_t said_ms; // when the server had finished; 0: not yet
};

static uint32_t live, shaking, unsaid;

uint32_t tls_front_count(void)
{
	return live;
}

uint32_t tls_front_shaking(void)
{
	return shaking;
}

uint32_t tls_front_unsaid(void)
{
	return unsaid;
}

static fallible tls_front_wrong(const char *what)
{
	char why[160] = "it does not fit";
	unsigned long code = ERR_peek_last_error();

	if (code)
		ERR_error_string_n(code, why, sizeof(why));
	ERR_clear_error();
	return err_new(INVALID, "bad_config", "%s: %s", what, why);
}

static bool take_cert(SSL_CTX *context, BIO *text)
{
	X509 *cert = PEM_read_bio_X509(text, NULL, NULL, NULL), *more;
	bool good = cert && SSL_CTX_use_certificate(context, cert) == 1;

	X509_free(cert);
	while (good && (more = PEM_read_bio_X509(text, NULL, NULL, NULL))) {
		good = SSL_CTX_add0_chain_cert(context, more) == 1;
		if (!good)
			X509_free(more);
	}
	if (good)
		ERR_clear_error(); // the end of the chain
	return good;
}

static bool tls_front_take_key(SSL_CTX *context, BIO *text)
{
	// With an empty password: there is nobody to prompt.
	EVP_PKEY *key = PEM_read_bio_PrivateKey(text, NULL, NULL, (void *)"");
	bool good = key && SSL_CTX_use_PrivateKey(context, key) == 1 &&
		    SSL_CTX_check_private_key(context) == 1;

	EVP_PKEY_free(key);
	return good;
}

// ALPN: refuses HTTP/2, because the server behind speaks HTTP/1.1.
static int tls_front_choose(SSL *ssl, const unsigned char **out, unsigned char *out_len,
			    const unsigned char *in, unsigned int in_len, void *arg)
{
	static const unsigned char ours[] = "\x08http/1.1";

	(void)ssl;
	(void)arg;
	return SSL_select_next_proto((unsigned char **)out, out_len, ours, sizeof(ours) - 1, in,
				     in_len) == OPENSSL_NPN_NEGOTIATED
		       ? SSL_TLSEXT_ERR_OK
		       : SSL_TLSEXT_ERR_NOACK;
}

static fallible read_keys(SSL_CTX *context, struct str cert, struct str key)
{
	BIO *certs = BIO_new_mem_buf(cert.at, (int)cert.len);
	BIO *keys = BIO_new_mem_buf(key.at, (int)key.len);
	struct err *err = OK;

	ERR_clear_error();
	if (!take_cert(context, certs))
		err = tls_front_wrong("preview-cert is not a certificate");
	else if (!tls_front_take_key(context, keys))
		err = tls_front_wrong("preview-key is not the key of preview-cert");
	BIO_free(certs);
	BIO_free(keys);
	return err;
}

fallible tls_front_keys_read(struct str cert, struct str key, struct tls_front_keys **out)
{
	SSL_CTX *context = SSL_CTX_new(TLS_server_method());
	struct err *err;

	if (!context)
		return tls_front_wrong("TLS could not be set up");
	SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
					     SSL_OP_IGNORE_UNEXPECTED_EOF |
					     SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
					  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					  SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_alpn_select_cb(context, tls_front_choose, NULL);
	err = read_keys(context, cert, key);
	if (err) {
		SSL_CTX_free(context);
		return err;
	}
	*out = mem_new_of(struct tls_front_keys);
	(*out)->context = context;
	return OK;
}

void tls_front_keys_free(struct tls_front_keys *keys)
{
	if (!keys)
		return;
	SSL_CTX_free(keys->context); // reference-counted: connections keep it
	free(keys);
}

static void tls_front_shake(void *arg)
{
	struct talk *talk = arg;

	ERR_clear_error();
	talk->result = SSL_do_handshake(talk->ssl);
	talk->want = SSL_get_error(talk->ssl, talk->result);
	ERR_clear_error();
}

static fallible tls_front_gone(void)
{
	return err_new(BAD_PEER, "bad_tls", "TLS with the visitor failed");
}

// Waits for what OpenSSL needs. `readable` was cleared before the call.
static fallible tls_front_wait_for(struct talk *talk, int want, int64_t deadline)
{
	if (want == SSL_ERROR_WANT_READ)
		return stream_wait_readable(&talk->net, deadline);
	if (want == SSL_ERROR_WANT_WRITE)
		return stream_wait_writable(&talk->net, deadline);
	return tls_front_gone();
}

static fallible shake_hands(struct talk *talk)
{
	int64_t deadline = loop_now(talk->loop) + TLS_FRONT_MS;

	for (;;) {
		if (talk->net.reset || loop_now(talk->loop) >= deadline)
			return tls_front_gone();
		talk->net.readable = false;
		offload_run(tls_front_shake, talk);
		if (talk->result == 1)
			return OK;
		// A half-close by the client is permanent: it would wake us forever.
		if (talk->net.hung_up && talk->want == SSL_ERROR_WANT_READ && !talk->net.readable)
			return tls_front_gone();
		TRY(tls_front_wait_for(talk, talk->want, deadline));
	}
}

// From the client to the server.
static fallible tls_front_copy_in(struct talk *talk)
{
	auto_free char *room = mem_grow(NULL, PIECE, 1);
	size_t spree = 0;

	for (;;) {
		int n, want;

		talk->net.readable = false;
		ERR_clear_error();
		n = SSL_read(talk->ssl, room, PIECE);
		want = n > 0 ? SSL_ERROR_NONE : SSL_get_error(talk->ssl, n);
		if (talk->chatter.over)
			return tls_front_gone();
		if (want == SSL_ERROR_ZERO_RETURN)
			return OK;
		if (want == SSL_ERROR_NONE) {
			TRY(stream_write(&talk->inner, room, (size_t)n, WRITE_MS));
			spree += (size_t)n + RECORD_COST;
			if (spree > SPREE_MAX)
				TRY(task_sleep_until(0));
			spree %= SPREE_MAX;
			continue;
		}
		if (want == SSL_ERROR_WANT_READ && talk->net.hung_up)
			return OK;
		TRY(tls_front_wait_for(talk, want,
				       talk->said_ms ? talk->said_ms + LINGER_MS
						     : loop_now(talk->loop) + IDLE_MS));
	}
}

// Waits for a client that does not read, unless the server has closed its side: then the rest is
// dropped after LINGER_MS.
static fallible await_visitor(struct talk *talk)
{
	int64_t deadline = loop_now(talk->loop) + WRITE_MS;
	struct err *err;

	do {
		err = stream_wait_writable(&talk->net, loop_now(talk->loop) + LINGER_MS);
		if (!err || err_kind(err) != ERR_TIMEOUT)
			return err;
		err_free(err);
	} while (!talk->inner.hung_up && loop_now(talk->loop) < deadline);
	talk->net.aborted = true;
	return tls_front_gone();
}

static fallible tls_front_push(struct talk *talk, const char *at, size_t len)
{
	while (len) {
		int n, want;

		ERR_clear_error();
		n = SSL_write(talk->ssl, at, (int)len);
		want = n > 0 ? SSL_ERROR_NONE : SSL_get_error(talk->ssl, n);
		if (want != SSL_ERROR_NONE) {
			if (want != SSL_ERROR_WANT_WRITE)
				return tls_front_gone();
			TRY(await_visitor(talk));
			continue;
		}
		at += n;
		len -= (size_t)n;
	}
	return OK;
}

// From the server to the client.
static fallible tls_front_copy_out(struct talk *talk)
{
	auto_free char *room = mem_grow(NULL, PIECE, 1);
	size_t n = 1;

	while (n) {
		TRY(stream_read(&talk->inner, room, PIECE, loop_now(talk->loop) + IDLE_MS, &n));
		TRY(tls_front_push(talk, room, n));
	}
	ERR_clear_error();
	SSL_shutdown(talk->ssl);
	shutdown(talk->net.fd, SHUT_WR);
	return OK;
}

static void break_off(struct talk *talk)
{
	shutdown(talk->net.fd, SHUT_RDWR);
	shutdown(talk->inner.fd, SHUT_RDWR);
}

static void tls_front_run_back(void *arg)
{
	struct talk *talk = arg;
	auto_err err = tls_front_copy_out(talk);

	// Closing a socket with unread input sends RST, which may overtake our last bytes: the
	// client closes first, or has had the time to.
	talk->said_ms = loop_now(talk->loop);
	unsaid--;
	if (err)
		break_off(talk);
	else if (talk->net.reader)
		task_wake(talk->net.reader);
	talk->back = NULL;
	condition_signal(&talk->over);
}

static fallible tls_front_carry(struct talk *talk)
{
	struct err *err;

	shaking++;
	err = shake_hands(talk);
	shaking--;
	TRY(err);
	chatter_watch(&talk->chatter, talk->ssl);
	http_server_take(talk->server, talk->pair, &talk->from);
	talk->pair = -1;
	unsaid++;
	talk->back = task_start(talk->loop, "tls out", tls_front_run_back, talk);
	err = tls_front_copy_in(talk);
	if (err)
		break_off(talk);
	else
		shutdown(talk->inner.fd, SHUT_WR);
	while (!err && talk->back)
		err = condition_wait(&talk->over, CLOCK_NEVER);
	if (talk->back)
		task_cancel(talk->back);
	while (talk->back)
		condition_await(&talk->over);
	return err;
}

static void talk_free(struct talk *talk)
{
	SSL_free(talk->ssl);
	stream_close(&talk->net);
	stream_close(&talk->inner);
	if (talk->pair >= 0)
		close(talk->pair);
	live--;
	free(talk);
}

static void tls_front_run(void *arg)
{
	struct talk *talk = arg;

	err_free(tls_front_carry(talk)); // one side has closed, and nobody is left to be told
	talk_free(talk);
}

static fallible tls_front_prepare(struct talk *talk, const struct tls_front_keys *keys, int fd,
				  int pair[2])
{
	struct err *err = stream_open(&talk->net, talk->loop, fd);

	if (err) {
		close(pair[0]);
		return err;
	}
	TRY(stream_open(&talk->inner, talk->loop, pair[0]));
	talk->ssl = SSL_new(keys->context);
	if (!talk->ssl || SSL_set_fd(talk->ssl, fd) != 1)
		return tls_front_wrong("TLS could not be set up");
	SSL_set_accept_state(talk->ssl);
	return OK;
}

void tls_front_start(struct loop *loop, const struct tls_front_keys *keys, int fd,
		     const struct sockaddr_storage *from, struct http_server *server)
{
	struct talk *talk;
	auto_err err = NULL;
	int pair[2];

	if (live >= LIVE_MAX ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair)) {
		close(fd);
		return;
	}
	talk = mem_new_of(struct talk);
	talk->loop = loop;
	talk->net.fd = talk->inner.fd = -1;
	talk->from = *from;
	talk->server = server;
	talk->pair = pair[1];
	condition_init(&talk->over);
	live++;
	err = tls_front_prepare(talk, keys, fd, pair);
	if (!err) {
		task_start(loop, "tls", tls_front_run, talk);
		return;
	}
	talk_free(talk);
}
