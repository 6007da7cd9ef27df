// The library sees neither the network nor the loop: it turns bytes in memory into bytes in memory,
// one step at a time in a worker, and the task moves what came out and brings what it asks for.
//
// syscalls: pread64 getdents64 readlink readlinkat
#include "door/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "loop/offload.h"

#define PIECE (64 * 1024)

struct tls {
	struct stream *stream;
	SSL_CTX *context;
	SSL *ssl;
	BIO *in, *out; // of the ssl
	const char *name;
	struct str more;
	// Of one step.
	int (*step)(struct tls *tls);
	const char *bytes;
	int file;
	uint64_t offset;
	void *room;
	size_t size;
	int result;    // of the library; 0: see `want`
	int want;      // SSL_get_error()
	int errnum;    // of the file
	char why[160]; // it failed
};

static int step_greet(struct tls *tls)
{
	return SSL_do_handshake(tls->ssl);
}

static int step_write(struct tls *tls)
{
	return SSL_write(tls->ssl, tls->bytes, (int)tls->size);
}

static int step_send(struct tls *tls)
{
	char *room = mem_new(tls->size);
	ssize_t n = pread(tls->file, room, tls->size, (off_t)tls->offset);
	int done = -1;

	tls->errnum = n < 0 ? errno : n == 0 ? ENODATA : 0;
	if (n > 0)
		done = SSL_write(tls->ssl, room, (int)n);
	free(room);
	return done;
}

static int step_read(struct tls *tls)
{
	return SSL_read(tls->ssl, tls->room, (int)tls->size);
}

static void explain(struct tls *tls)
{
	long verdict = SSL_get_verify_result(tls->ssl);
	unsigned long code = ERR_peek_last_error();

	if (verdict != X509_V_OK)
		snprintf(tls->why, sizeof(tls->why), "%s", X509_verify_cert_error_string(verdict));
	else if (code)
		ERR_error_string_n(code, tls->why, sizeof(tls->why));
	else
		snprintf(tls->why, sizeof(tls->why), "it hung up");
}

static void work(void *arg)
{
	struct tls *tls = arg;

	ERR_clear_error();
	tls->errnum = 0;
	tls->result = tls->step(tls);
	tls->want = tls->errnum ? SSL_ERROR_NONE : SSL_get_error(tls->ssl, tls->result);
	if (tls->want == SSL_ERROR_SSL || tls->want == SSL_ERROR_SYSCALL)
		explain(tls);
}

static fallible push_out(struct tls *tls, int64_t silence_ms)
{
	char *at = NULL;
	long len = BIO_get_mem_data(tls->out, &at);

	if (len > 0)
		TRY(stream_write(tls->stream, at, (size_t)len, silence_ms));
	(void)BIO_reset(tls->out);
	return OK;
}

static fallible pull_in(struct tls *tls, int64_t silence_ms)
{
	auto_free char *room = mem_new(PIECE);
	size_t got = 0;

	TRY(stream_read(tls->stream, room, PIECE, loop_now(tls->stream->loop) + silence_ms, &got));
	if (got)
		BIO_write(tls->in, room, (int)got);
	else
		BIO_set_mem_eof_return(tls->in, 0); // a hang-up, to the library
	return OK;
}

// Runs a step until it is done; *out is what the library gave back, 0 at the peer's end.
static fallible turn(struct tls *tls, int (*step)(struct tls *), int64_t silence_ms, size_t *out)
{
	for (;;) {
		tls->step = step;
		offload_run(work, tls);
		TRY(push_out(tls, silence_ms));
		if (tls->errnum)
			return tls->errnum == ENODATA ? err_new(CONFLICT, "file_changed",
								"the file ends too early")
						      : err_sys(tls->errnum, "read a file");
		if (tls->want == SSL_ERROR_NONE || tls->want == SSL_ERROR_ZERO_RETURN) {
			*out = tls->result > 0 ? (size_t)tls->result : 0;
			return OK;
		}
		if (tls->want != SSL_ERROR_WANT_READ)
			return err_new(BAD_PEER, "bad_tls", "TLS with the server failed: %s",
				       tls->why);
		TRY(pull_in(tls, silence_ms));
	}
}

static bool trust_more(SSL_CTX *context, struct str more)
{
	X509_STORE *store = SSL_CTX_get_cert_store(context);
	BIO *text = BIO_new_mem_buf(more.at, (int)more.len);
	bool good = true;
	X509 *one;

	while (good && (one = PEM_read_bio_X509(text, NULL, NULL, NULL))) {
		good = X509_STORE_add_cert(store, one) == 1;
		X509_free(one);
	}
	BIO_free(text);
	return good;
}

// In a worker, too: it reads the host's certificates.
static void prepare(void *arg)
{
	struct tls *tls = arg;
	X509_VERIFY_PARAM *param;

	tls->context = SSL_CTX_new(TLS_client_method());
	if (!tls->context)
		return;
	SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION);
	SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER, NULL);
	// One that hangs up without a word may have been cut off by somebody else: what matters
	// here has a length of its own.
	SSL_CTX_set_options(tls->context, SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_default_verify_paths(tls->context);
	if (tls->more.len && !trust_more(tls->context, tls->more))
		return;
	tls->ssl = SSL_new(tls->context);
	tls->in = BIO_new(BIO_s_mem());
	tls->out = BIO_new(BIO_s_mem());
	BIO_set_mem_eof_return(tls->in, -1);
	SSL_set_bio(tls->ssl, tls->in, tls->out);
	SSL_set_connect_state(tls->ssl);
	param = SSL_get0_param(tls->ssl);
	if (X509_VERIFY_PARAM_set1_ip_asc(param, tls->name) == 1)
		return;
	X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	SSL_set1_host(tls->ssl, tls->name);
	SSL_set_tlsext_host_name(tls->ssl, tls->name);
}

fallible tls_open(struct stream *stream, const char *name, struct str more, int64_t silence_ms,
		  struct tls **out)
{
	auto_tls tls = mem_new_of(struct tls);
	size_t done;

	tls->stream = stream;
	tls->name = name;
	tls->more = more;
	offload_run(prepare, tls);
	if (!tls->ssl)
		return err_new(INTERNAL, "internal", "TLS could not be set up");
	TRY(turn(tls, step_greet, silence_ms, &done));
	*out = take_ptr(tls);
	return OK;
}

void tls_free(struct tls *tls)
{
	if (!tls)
		return;
	SSL_free(tls->ssl);
	SSL_CTX_free(tls->context);
	free(tls);
}

static fallible moved(size_t done)
{
	return done ? OK : err_new(BAD_PEER, "peer_gone", "the server has hung up");
}

fallible tls_write(struct tls *tls, struct str bytes, int64_t silence_ms)
{
	while (bytes.len) {
		size_t done = 0;

		tls->bytes = bytes.at;
		tls->size = bytes.len < PIECE ? bytes.len : PIECE;
		TRY(turn(tls, step_write, silence_ms, &done));
		TRY(moved(done));
		bytes = str_skip(bytes, done);
	}
	return OK;
}

fallible tls_send(struct tls *tls, int file, uint64_t offset, uint64_t len, int64_t silence_ms)
{
	while (len) {
		size_t done = 0;

		tls->file = file;
		tls->offset = offset;
		tls->size = len < PIECE ? (size_t)len : PIECE;
		TRY(turn(tls, step_send, silence_ms, &done));
		TRY(moved(done));
		offset += done;
		len -= done;
	}
	return OK;
}

fallible tls_read(struct tls *tls, void *room, size_t size, int64_t silence_ms, size_t *out)
{
	tls->room = room;
	tls->size = size;
	return turn(tls, step_read, silence_ms, out);
}
