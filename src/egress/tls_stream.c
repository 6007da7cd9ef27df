// OpenSSL over memory BIOs. Its output waits in `out` until a task flushes it, one at a time, in
// order. The reading task fills `in`.
//
// A call into the library never waits and completes on one thread, so there is no lock. Only the
// handshake runs in a worker, when no other task has the connection yet.
//
// syscalls: pread64 getdents64 readlink readlinkat
#include "egress/tls_stream.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "loop/chatter.h"
#include "loop/offload.h"

#define PIECE (64 * 1024)
#define RECORDS (32 * 1024) // written in one step

struct trust {
	struct str more;
	SSL_CTX *context;
	bool reading; // a worker is reading the certificates
	struct condition read;
};

struct tls_stream {
	struct stream *stream;
	SSL *ssl;
	BIO *in, *out; // of the SSL object
	struct chatter chatter;
	struct condition flushed;
	bool flushing;
	bool cut;   // the stream ended without a close_notify
	char *room; // for flushes, allocated when first needed
	char *got;  // for reads
};

struct step {
	struct tls_stream *tls;
	int (*run)(const struct step *step);
	void *room;
	const void *bytes;
	size_t size;
	int result, want;
	char why[160];
	// Switches to the loop's own stack.
	struct deferred deferred;
	struct task *task;
	bool done;
};

static int step_greet(const struct step *step)
{
	return SSL_do_handshake(step->tls->ssl);
}

static int step_read(const struct step *step)
{
	return SSL_read(step->tls->ssl, step->room, (int)step->size);
}

static int step_write(const struct step *step)
{
	return SSL_write(step->tls->ssl, step->bytes, (int)step->size);
}

static int step_end(const struct step *step)
{
	// 0: the peer's close_notify is missing, and not waited for.
	return SSL_shutdown(step->tls->ssl) < 0 ? -1 : 1;
}

static void tls_stream_explain(struct step *step)
{
	long verdict = SSL_get_verify_result(step->tls->ssl);
	unsigned long code = ERR_peek_last_error();

	if (verdict != X509_V_OK)
		snprintf(step->why, sizeof(step->why), "%s",
			 X509_verify_cert_error_string(verdict));
	else if (code)
		ERR_error_string_n(code, step->why, sizeof(step->why));
	else
		snprintf(step->why, sizeof(step->why), "the peer closed the connection");
}

static void tls_stream_work(void *arg)
{
	struct step *step = arg;

	ERR_clear_error();
	step->result = step->run(step);
	step->want = SSL_get_error(step->tls->ssl, step->result);
	if (step->want == SSL_ERROR_SSL || step->want == SSL_ERROR_SYSCALL)
		tls_stream_explain(step);
}

static void tls_stream_on_deferred(struct deferred *deferred)
{
	struct step *step = link_of(deferred, struct step, deferred);

	tls_stream_work(step);
	step->done = true;
	task_wake(step->task);
}

static void hop(struct step *step)
{
	step->deferred = (struct deferred){.run = tls_stream_on_deferred};
	link_init(&step->deferred.link);
	step->task = task_current();
	step->done = false;
	loop_defer(step->tls->stream->loop, &step->deferred);
	while (!step->done)
		task_park_firm();
}

static fallible tls_stream_flush(struct tls_stream *tls, int64_t silence_ms)
{
	while (BIO_pending(tls->out) > 0) {
		struct err *err;
		int n;

		if (tls->flushing) {
			TRY(condition_wait(&tls->flushed,
					   loop_now(tls->stream->loop) + silence_ms));
			continue;
		}
		if (!tls->room)
			tls->room = mem_new(PIECE);
		n = BIO_read(tls->out, tls->room, PIECE);
		if (n <= 0)
			return OK;
		tls->flushing = true;
		err = stream_write(tls->stream, tls->room, (size_t)n, silence_ms);
		tls->flushing = false;
		condition_signal(&tls->flushed);
		TRY(err);
	}
	return OK;
}

static fallible tls_stream_pull(struct tls_stream *tls, int64_t deadline)
{
	size_t got = 0;

	if (!tls->got)
		tls->got = mem_new(PIECE);
	TRY(stream_read(tls->stream, tls->got, PIECE, deadline, &got));
	if (got) {
		BIO_write(tls->in, tls->got, (int)got);
	} else {
		// The library reads on only before a close_notify.
		tls->cut = true;
		BIO_set_mem_eof_return(tls->in, 0); // EOF, for the library
	}
	return OK;
}

// *out: the result of the library, 0 at the peer's end.
static fallible tls_stream_turn(struct tls_stream *tls, struct step *step, bool greeting,
				int64_t deadline, int64_t silence_ms, size_t *out)
{
	step->tls = tls;
	for (;;) {
		if (greeting)
			offload_run(tls_stream_work, step);
		else
			hop(step);
		if (tls->chatter.over)
			return err_new(BAD_PEER, "bad_tls",
				       "TLS failed: too many records without data");
		TRY(tls_stream_flush(tls, silence_ms));
		if (step->want == SSL_ERROR_NONE || step->want == SSL_ERROR_ZERO_RETURN) {
			*out = step->result > 0 ? (size_t)step->result : 0;
			return OK;
		}
		if (step->want != SSL_ERROR_WANT_READ)
			return err_new(BAD_PEER, "bad_tls", "TLS failed: %s", step->why);
		TRY(tls_stream_pull(tls, deadline));
	}
}

// --------------------------------------------------------------------------------------- trust

struct trust *trust_new(struct str more)
{
	struct trust *trust = mem_new_of(struct trust);

	trust->more = more;
	condition_init(&trust->read);
	return trust;
}

void trust_free(struct trust *trust)
{
	if (!trust)
		return;
	SSL_CTX_free(trust->context);
	free(trust);
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

static void read_trust(void *arg)
{
	static const unsigned char http1[] = "\x08http/1.1";
	struct trust *trust = arg;
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());

	if (!context)
		return;
	SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_alpn_protos(context, http1, sizeof(http1) - 1);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	// Many servers close without a close_notify: tls_stream_is_cut() reports it. The callers
	// check lengths of HTTP.
	SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_default_verify_paths(context);
	if (trust->more.len && !trust_more(context, trust->more)) {
		SSL_CTX_free(context);
		return;
	}
	trust->context = context;
}

static fallible trust_ready(struct trust *trust)
{
	while (!trust->context && trust->reading)
		TRY(condition_wait(&trust->read, CLOCK_NEVER));
	if (!trust->context) {
		trust->reading = true;
		offload_run(read_trust, trust);
		trust->reading = false;
		condition_signal(&trust->read);
	}
	return trust->context ? OK : err_sys(0, "read the certificates that this host trusts");
}

// --------------------------------------------------------------------------------- open and close

static struct tls_stream *tls_stream_new(struct stream *stream, SSL_CTX *context)
{
	struct tls_stream *tls = mem_new_of(struct tls_stream);

	condition_init(&tls->flushed);
	tls->stream = stream;
	tls->ssl = SSL_new(context);
	tls->in = BIO_new(BIO_s_mem());
	tls->out = BIO_new(BIO_s_mem());
	if (!tls->ssl || !tls->in || !tls->out)
		abort(); // out of memory
	BIO_set_mem_eof_return(tls->in, -1);
	// The library may drop its reference earlier.
	BIO_up_ref(tls->in);
	SSL_set_bio(tls->ssl, tls->in, tls->out);
	SSL_set_mode(tls->ssl, SSL_MODE_RELEASE_BUFFERS);
	return tls;
}

static fallible tls_stream_greet(struct tls_stream *tls, int64_t silence_ms)
{
	struct step step = {.run = step_greet};
	size_t done;

	TRY(tls_stream_turn(tls, &step, true, loop_now(tls->stream->loop) + silence_ms, silence_ms,
			    &done));
	chatter_watch(&tls->chatter, tls->ssl);
	return OK;
}

fallible tls_stream_connect(struct stream *stream, struct trust *trust, const char *name,
			    int64_t silence_ms, struct tls_stream **out)
{
	auto_tls_stream tls = NULL;
	X509_VERIFY_PARAM *param;

	TRY(trust_ready(trust));
	tls = tls_stream_new(stream, trust->context);
	SSL_set_connect_state(tls->ssl);
	param = SSL_get0_param(tls->ssl);
	if (X509_VERIFY_PARAM_set1_ip_asc(param, name) != 1) {
		X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
		SSL_set1_host(tls->ssl, name);
		SSL_set_tlsext_host_name(tls->ssl, name);
	}
	TRY(tls_stream_greet(tls, silence_ms));
	*out = take_ptr(tls);
	return OK;
}

fallible tls_stream_accept(struct stream *stream, SSL_CTX *context, int64_t silence_ms,
			   struct tls_stream **out)
{
	auto_tls_stream tls = tls_stream_new(stream, context);

	SSL_set_accept_state(tls->ssl);
	TRY(tls_stream_greet(tls, silence_ms));
	*out = take_ptr(tls);
	return OK;
}

void tls_stream_free(struct tls_stream *tls)
{
	if (!tls)
		return;
	SSL_free(tls->ssl);
	BIO_free(tls->in);
	if (tls->got)
		OPENSSL_cleanse(tls->got, PIECE);
	free(tls->got);
	free(tls->room);
	free(tls);
}

fallible tls_stream_read(struct tls_stream *tls, void *room, size_t size, int64_t deadline,
			 size_t *out)
{
	struct step step = {.run = step_read, .room = room, .size = size};
	int64_t left = deadline - loop_now(tls->stream->loop);

	return tls_stream_turn(tls, &step, false, deadline, left > 0 ? left : 1, out);
}

bool tls_stream_is_cut(const struct tls_stream *tls)
{
	return tls->cut;
}

fallible tls_stream_write(struct tls_stream *tls, const void *bytes, size_t len, int64_t silence_ms)
{
	const char *at = bytes;

	while (len) {
		struct step step = {
			.run = step_write, .bytes = at, .size = len < RECORDS ? len : RECORDS};
		size_t done = 0;

		// Only a renegotiation would need a read here, and it is disabled.
		TRY(tls_stream_turn(tls, &step, false, 0, silence_ms, &done));
		if (!done)
			return err_new(BAD_PEER, "peer_gone", "the peer closed the connection");
		at += done;
		len -= done;
	}
	return OK;
}

fallible tls_stream_end(struct tls_stream *tls, int64_t silence_ms)
{
	struct step step = {.run = step_end};
	size_t done;

	return tls_stream_turn(tls, &step, false, 0, silence_ms, &done);
}
