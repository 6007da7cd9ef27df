// TLS with a certificate that is made here, by the daemon's own client.
#include "preview/tls_front.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "egress/tls_stream.h"
#include "loop/offload.h"
#include "unit/http/house.h"

static void add(X509 *cert, int nid, const char *value)
{
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

	X509_add_ext(cert, extension, -1);
	X509_EXTENSION_free(extension);
}

static void take(BIO *from, struct buf *out)
{
	char *at;
	long len = BIO_get_mem_data(from, &at);

	buf_add(out, at, (size_t)len);
	BIO_free(from);
}

static void make_cert(const char *name, struct buf *cert_text, struct buf *key_text)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = X509_new();
	BIO *certs = BIO_new(BIO_s_mem()), *keys = BIO_new(BIO_s_mem());
	auto_free char *names = mem_fmt("DNS:%s", name);

	X509_set_version(cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
	X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
	X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
	X509_set_pubkey(cert, key);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
				   (const unsigned char *)name, -1, -1, 0);
	X509_set_issuer_name(cert, X509_get_subject_name(cert));
	add(cert, NID_subject_alt_name, names);
	add(cert, NID_basic_constraints, "critical,CA:TRUE");
	X509_sign(cert, key, EVP_sha256());
	PEM_write_bio_X509(certs, cert);
	PEM_write_bio_PrivateKey(keys, key, NULL, NULL, 0, NULL, NULL);
	take(certs, cert_text);
	take(keys, key_text);
	X509_free(cert);
	EVP_PKEY_free(key);
}

static struct tls_front_keys *keys;
static struct buf cert, key;
static int listener;
static uint16_t port;

static void accept_one(void *arg)
{
	struct sockaddr_storage from = {0};
	socklen_t len = sizeof(from);
	uint32_t events;
	int fd;

	(void)arg;
	CHECK_OK(task_wait_fd(listener, EPOLLIN, inside_now() + 5000, &events));
	fd = accept4(listener, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
	tls_front_start(inside_loop, keys, fd, &from, house_server);
}

static void begin(void)
{
	cert = BUF_INIT(65536);
	key = BUF_INIT(65536);
	make_cert("x.test", &cert, &key);
	CHECK_OK(offload_open(inside_loop, 2));
	CHECK_OK(tls_front_keys_read(buf_view(&cert), buf_view(&key), &keys));
	house_open(NULL);
	CHECK_OK(dial_listen(STR("127.0.0.1:0"), &listener, &port));
	task_start(inside_loop, "accept", accept_one, NULL);
}

static void finish(void)
{
	for (int i = 0; i < 400 && tls_front_count(); i++)
		inside_sleep(5);
	CHECK(tls_front_count() == 0);
	house_close();
	tls_front_keys_free(keys);
	close(listener);
	buf_done(&cert);
	buf_done(&key);
	offload_close();
}

static void dial(struct stream *out)
{
	*out = (struct stream){.fd = -1};
	CHECK_OK(dial_tcp(inside_loop, STR("127.0.0.1"), port, inside_now() + 2000, out));
}

static void hear(struct tls_stream *tls, struct buf *out)
{
	size_t n = 1;

	while (n) {
		char *space = buf_space(out, 65536);

		n = 0;
		if (space)
			err_free(tls_stream_read(tls, space, 65536, inside_now() + 5000, &n));
		buf_grew(out, n);
	}
}

static fallible write_all(struct tls_stream *tls, struct str words)
{
	return tls_stream_write(tls, words.at, words.len, 5000);
}

TASK_TEST(serves,
	  "a request by TLS is served like any other, large bodies both ways and kept alive")
{
	auto_buf out = BUF_INIT(16 << 20), body = BUF_INIT(4 << 20);
	struct stream stream;
	auto_tls_stream tls = NULL;
	struct trust *trust;

	begin();
	for (int i = 0; i < 1 << 20; i++)
		buf_char(&body, 'a');
	dial(&stream);
	trust = trust_new(buf_view(&cert));
	CHECK_OK(tls_stream_connect(&stream, trust, "x.test", 5000, &tls));
	CHECK_OK(write_all(tls, STR(ASK("GET", "/hello"))));
	CHECK_OK(write_all(
		tls, STR("POST /sum HTTP/1.1\r\nHost: h\r\nContent-Length: 1048576\r\n\r\n")));
	CHECK_OK(write_all(tls, buf_view(&body)));
	CHECK_OK(write_all(
		tls, STR("GET /pour?mib=4 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")));
	hear(tls, &out);
	CHECK(house_count(&out, "HTTP/1.1 200") == 3);
	CHECK(strstr(out.at, "hello") && strstr(out.at, "1048576 101711872"));
	CHECK(out.len > 4 << 20);
	trust_free(trust);
	stream_close(&stream);
	finish();
}

// A visitor that blocks, and so has a thread.
struct flood {
	int fd;
	bool greeted;
	atomic_bool ended;
};

static void *run_flood(void *arg)
{
	struct flood *flood = arg;
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(context);
	char room[4096];

	SSL_set_fd(ssl, flood->fd);
	flood->greeted = SSL_connect(ssl) == 1;
	for (int i = 0; flood->greeted && i < 1000; i++)
		if (SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED) != 1 ||
		    SSL_do_handshake(ssl) != 1)
			break;
	while (recv(flood->fd, room, sizeof(room), 0) > 0)
		;
	flood->ended = true;
	SSL_free(ssl);
	SSL_CTX_free(context);
	return NULL;
}

TASK_TEST(flood, "a client that sends only key updates is disconnected")
{
	struct timeval patience = {.tv_sec = 10};
	struct flood flood = {0};
	struct stream stream;
	pthread_t thread;

	signal(SIGPIPE, SIG_IGN);
	begin();
	dial(&stream);
	loop_unwatch(inside_loop, &stream.watch);
	fcntl(stream.fd, F_SETFL, 0);
	setsockopt(stream.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	flood.fd = stream.fd;
	pthread_create(&thread, NULL, run_flood, &flood);
	for (int i = 0; i < 1000 && !flood.ended; i++)
		inside_sleep(5);
	pthread_join(thread, NULL);
	CHECK(flood.greeted && tls_front_count() == 0);
	close(stream.fd);
	finish();
}

TASK_TEST(strangers, "a client without TLS, or one that disconnects, leaves nothing behind")
{
	static const char *const words[] = {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "",
					    "\x16\x03\x01\x00\x05"};
	struct stream stream;

	for (size_t i = 0; i < 3; i++) {
		begin();
		dial(&stream);
		err_free(stream_write(&stream, words[i], i == 2 ? 5 : strlen(words[i]), 2000));
		inside_sleep(20);
		stream_close(&stream);
		finish();
	}
	CHECK(house_served == 0);
}

TEST(bad_keys, "a key that is not the certificate's is refused, and so is text that is neither")
{
	auto_buf one = BUF_INIT(65536), its_key = BUF_INIT(65536);
	auto_buf two = BUF_INIT(65536), other_key = BUF_INIT(65536);
	struct tls_front_keys *got = NULL;

	make_cert("a.test", &one, &its_key);
	make_cert("b.test", &two, &other_key);
	CHECK_ERR(tls_front_keys_read(buf_view(&one), buf_view(&other_key), &got), INVALID);
	CHECK_ERR(tls_front_keys_read(STR("nonsense"), buf_view(&its_key), &got), INVALID);
	CHECK_ERR(tls_front_keys_read(buf_view(&one), STR("nonsense"), &got), INVALID);
	CHECK(!got);
	CHECK_OK(tls_front_keys_read(buf_view(&one), buf_view(&its_key), &got));
	tls_front_keys_free(got);
}
