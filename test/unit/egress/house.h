// A way out with everything around it: a store, a listener that plays the one in a box, a server
// outside, and clients. The server listens at another address of loopback, on the port that the box
// connects to, as the operator's exceptions allow. Server and clients are threads that block.
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/mem.h"
#include "egress/egress.h"
#include "loop/offload.h"
#include "store/egress.h"
#include "types/policy.h"
#include "unit/loop/inside.h"

#define BOX "box-0123456789abcdef0123456789abcdef0123456789abcdef"

static struct house {
	struct store *store;
	struct egress *egress;
	struct egress_box *box;
	uint16_t port; // of the box's listener, and of the server
	uint16_t udp;
	int server;
	pthread_t server_thread;
	SSL_CTX *server_tls; // NULL: plain
	char *ca;	     // PEM of who signed the server
	atomic_int accepted, requests;
	atomic_llong received;
	int live;
	char placeholder[POLICY_PLACEHOLDER_LEN + 1]; // of the first secret
	char saw[131072];			      // by the server, last: head and body
} house;
static pthread_mutex_t seeing = PTHREAD_MUTEX_INITIALIZER; // of `saw`

static inline int listen_at(const char *address, uint16_t port, uint16_t *out_port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	socklen_t len = sizeof(at);

	inet_pton(AF_INET, address, &at.sin_addr);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (void *)&at, len) || listen(fd, 256) || getsockname(fd, (void *)&at, &len)) {
		close(fd);
		return -1;
	}
	*out_port = ntohs(at.sin_port);
	return fd;
}

// -------------------------------------------------------------------------------- certificates

static inline X509 *sign_cert(EVP_PKEY *key, const char *title, const char *alt, X509 *issuer,
			      EVP_PKEY *issuer_key)
{
	X509 *cert = X509_new();
	X509V3_CTX context;
	X509_EXTENSION *extension;

	X509_set_version(cert, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), issuer ? 2 : 1);
	X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
	X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
	X509_set_pubkey(cert, key);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
				   (const void *)title, -1, -1, 0);
	X509_set_issuer_name(cert, X509_get_subject_name(issuer ? issuer : cert));
	X509V3_set_ctx(&context, issuer ? issuer : cert, cert, NULL, NULL, 0);
	extension = X509V3_EXT_nconf_nid(NULL, &context,
					 issuer ? NID_subject_alt_name : NID_basic_constraints,
					 issuer ? alt : "critical,CA:TRUE");
	X509_add_ext(cert, extension, -1);
	X509_EXTENSION_free(extension);
	X509_sign(cert, issuer_key, EVP_sha256());
	return cert;
}

static inline char *pem_of(X509 *cert)
{
	BIO *bio = BIO_new(BIO_s_mem());
	char *at, *text;
	long len;

	PEM_write_bio_X509(bio, cert);
	len = BIO_get_mem_data(bio, &at);
	text = mem_dup(at, (size_t)len);
	BIO_free(bio);
	return text;
}

// A server's context for up.test, signed by an authority of the test's.
static inline void make_server_tls(void)
{
	EVP_PKEY *ca_key = EVP_EC_gen("P-256"), *key = EVP_EC_gen("P-256");
	X509 *ca = sign_cert(ca_key, "test authority", NULL, NULL, ca_key);
	X509 *cert = sign_cert(key, "up.test", "DNS:up.test", ca, ca_key);

	house.server_tls = SSL_CTX_new(TLS_server_method());
	SSL_CTX_use_certificate(house.server_tls, cert);
	SSL_CTX_use_PrivateKey(house.server_tls, key);
	house.ca = pem_of(ca);
	X509_free(ca);
	X509_free(cert);
	EVP_PKEY_free(ca_key);
	EVP_PKEY_free(key);
}

// ----------------------------------------------------------------------------------- the server

struct talk {
	int fd;
	SSL *ssl;
};

static inline ssize_t talk_read(struct talk *talk, void *room, size_t size)
{
	return talk->ssl ? SSL_read(talk->ssl, room, (int)size) : read(talk->fd, room, size);
}

static inline bool talk_write(struct talk *talk, const void *bytes, size_t len)
{
	const char *at = bytes;

	while (len) {
		ssize_t n = talk->ssl ? SSL_write(talk->ssl, at, (int)len)
				      : send(talk->fd, at, len, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

static inline void talk_end(struct talk *talk)
{
	if (talk->ssl) {
		SSL_shutdown(talk->ssl);
		SSL_free(talk->ssl);
	}
	close(talk->fd);
	talk->fd = -1;
	talk->ssl = NULL;
}

// Reads one head into `head` (with a NUL); what follows it stays in `rest`.
static inline bool talk_head(struct talk *talk, char *head, size_t size, char *rest,
			     size_t *rest_len)
{
	size_t len = *rest_len;
	char *end;

	memcpy(head, rest, len);
	head[len] = 0;
	while (!(end = strstr(head, "\r\n\r\n"))) {
		ssize_t n = len + 1 < size ? talk_read(talk, head + len, size - 1 - len) : 0;

		if (n <= 0)
			return false;
		len += (size_t)n;
		head[len] = 0;
	}
	end += 4;
	*rest_len = len - (size_t)(end - head);
	memcpy(rest, end, *rest_len);
	*end = 0;
	return true;
}

static const char upgrade[] = "HTTP/1.1 101 Switching Protocols\r\n"
			      "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

struct served {
	struct talk talk;
	char head[65536], rest[65536], body[65536];
	size_t rest_len;
};

// Up to the last chunk, as far as there is room. Their content has no such end in it.
static inline size_t serve_chunks(struct served *served)
{
	size_t have = served->rest_len;

	memcpy(served->body, served->rest, have);
	served->rest_len = 0;
	while (have < 5 || memcmp(served->body + have - 5, "0\r\n\r\n", 5) != 0) {
		ssize_t n = talk_read(&served->talk, served->body + have,
				      sizeof(served->body) - have);

		if (n <= 0)
			break;
		have += (size_t)n;
	}
	return have;
}

// What Content-Length says, as far as there is room.
static inline size_t serve_body(struct served *served)
{
	const char *at = strcasestr(served->head, "content-length:");
	size_t want = at ? strtoul(at + 15, NULL, 10) : 0, have = 0;

	if (want > sizeof(served->body))
		want = sizeof(served->body);
	while (have < want) {
		size_t left = want - have;
		ssize_t n = (ssize_t)(served->rest_len < left ? served->rest_len : left);

		if (n) {
			memcpy(served->body + have, served->rest, (size_t)n);
			served->rest_len -= (size_t)n;
			memmove(served->rest, served->rest + n, served->rest_len);
		} else {
			n = talk_read(&served->talk, served->body + have, left);
		}
		if (n <= 0)
			break;
		have += (size_t)n;
	}
	return have;
}

static inline void serve_echo(struct served *served)
{
	char room[256];
	ssize_t n;

	talk_write(&served->talk, upgrade, strlen(upgrade));
	while ((n = talk_read(&served->talk, room, sizeof(room))) > 0)
		talk_write(&served->talk, room, (size_t)n);
}

static inline void serve_big(struct served *served, size_t size)
{
	memset(served->body, 'x', sizeof(served->body));
	while (size) {
		size_t n = size < sizeof(served->body) ? size : sizeof(served->body);

		if (!talk_write(&served->talk, served->body, n))
			return;
		size -= n;
	}
}

// Answers a request with its own words: the head, then the body. False: that was the last.
static inline bool serve_request(struct served *served)
{
	bool chunked = strcasestr(served->head, "transfer-encoding: chunked");
	size_t have = chunked ? serve_chunks(served) : serve_body(served), big = 0;
	char reply[256];

	house.requests++;
	pthread_mutex_lock(&seeing);
	snprintf(house.saw, sizeof(house.saw), "%s%.*s", served->head, (int)have, served->body);
	pthread_mutex_unlock(&seeing);
	if (strncmp(served->head, "GET /up ", 8) == 0) {
		serve_echo(served);
		return false;
	}
	if (strncmp(served->head, "GET /big/", 9) == 0)
		big = strtoul(served->head + 9, NULL, 10);
	snprintf(reply, sizeof(reply), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n",
		 big ? big : strlen(served->head) + have);
	if (!talk_write(&served->talk, reply, strlen(reply)))
		return false;
	if (big) {
		serve_big(served, big);
	} else {
		talk_write(&served->talk, served->head, strlen(served->head));
		talk_write(&served->talk, served->body, have);
	}
	return !strstr(served->head, "Connection: close");
}

static inline void *serve_client(void *arg)
{
	struct served *served = mem_new_of(struct served);
	struct talk *talk = &served->talk;
	bool good = true;

	talk->fd = (int)(intptr_t)arg;
	if (house.server_tls) {
		talk->ssl = SSL_new(house.server_tls);
		SSL_set_fd(talk->ssl, talk->fd);
		good = SSL_accept(talk->ssl) == 1;
	}
	while (good &&
	       talk_head(talk, served->head, sizeof(served->head), served->rest, &served->rest_len))
		good = serve_request(served);
	talk_end(talk);
	free(served);
	return NULL;
}

static inline void *serve_all(void *arg)
{
	(void)arg;
	for (;;) {
		int fd = accept4(house.server, NULL, NULL, SOCK_CLOEXEC);
		pthread_t thread;

		if (fd < 0)
			return NULL;
		house.accepted++;
		pthread_create(&thread, NULL, serve_client, (void *)(intptr_t)fd);
		pthread_detach(thread);
	}
}

// ------------------------------------------------------------------------------------ the house

// %u in the text is the port.
static inline struct err *read_policy(const char *text, struct policy *out)
{
	struct json *json = NULL;
	struct err *err;
	auto_buf filled = BUF_INIT(65536);

	for (const char *at = text; *at; at++)
		if (at[0] == '%' && at[1] == 'u') {
			buf_fmt(&filled, "%u", house.port);
			at++;
		} else {
			buf_char(&filled, *at);
		}
	err = json_read(buf_view(&filled), &json);
	if (!err)
		err = policy_read(json, POLICY_OFF, out);
	json_free(json);
	return err;
}

static inline struct err *enter_box(const char *text, bool fresh)
{
	auto_policy policy = POLICY_INIT(POLICY_OFF);
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(any);
	uint16_t port = 0;
	int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;
	int listener = listen_at("127.0.0.1", house.port, &port);

	setsockopt(udp, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on));
	if (bind(udp, (void *)&any, len) || getsockname(udp, (void *)&any, &len))
		return err_sys(errno, "bind a socket for names");
	house.udp = ntohs(any.sin_port);
	house.port = port;
	if (house.server < 0)
		house.server = listen_at("127.0.0.2", port, &port);
	TRY(read_policy(text, &policy));
	if (policy.secret_count)
		snprintf(house.placeholder, sizeof(house.placeholder), "%s",
			 policy.secrets[0].placeholder);
	return egress_box_new(house.egress,
			      &(struct egress_box_spec){.id = BOX,
							.tenant = "acme",
							.policy = &policy,
							.listener = listener,
							.udp = udp,
							.fresh = fresh},
			      &house.box);
}

static inline struct err *open_egress(void)
{
	struct egress_config config = {
		.exceptions = STR("127.0.0.2"),
		.hosts = STR("up.test=127.0.0.2, deep.up.test=127.0.0.2, home.test=127.0.0.1, "
			     "meta.test=169.254.169.254"),
		.ca = str_of(house.ca),
		.live = house.live,
		.per_second_max = 1000,
	};

	memset(config.seed, 7, sizeof(config.seed));
	return egress_open(inside_loop, house.store, &config, &house.egress);
}

static inline struct err *enter_house(bool tls, const char *policy)
{
	signal(SIGPIPE, SIG_IGN);
	setenv("COVE_LOG_LEVEL", "error", 0);
	log_open("test", 2);
	house = (struct house){.server = -1, .live = -1};
	TRY(offload_open(inside_loop, 2));
	if (tls)
		make_server_tls();
	TRY(store_open(&(struct store_options){.loop = inside_loop, .dir = -1}, &house.store));
	TRY(open_egress());
	TRY(enter_box(policy, true));
	pthread_create(&house.server_thread, NULL, serve_all, NULL);
	return OK;
}

static inline void leave_house(void)
{
	egress_box_free(house.box);
	egress_close(house.egress);
	shutdown(house.server, SHUT_RDWR);
	pthread_join(house.server_thread, NULL);
	close(house.server);
	store_close(house.store);
	offload_close();
	SSL_CTX_free(house.server_tls);
	free(house.ca);
}

// ----------------------------------------------------------------------------------- the clients

struct client {
	const char *request; // the whole of it; more follow behind a NUL when `more`
	const char *sni;     // NULL: plain
	const char *ca;	     // whom it believes; NULL: anybody
	const char *alpn;
	// What came of it.
	char reply[32768];
	size_t len;
	atomic_size_t total;
	bool forget; // counts only
	bool connected;
	unsigned long error; // of TLS
	long verified;
	atomic_bool done;
	pthread_t thread;
};

static inline int connect_box(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(house.port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, (void *)&to, sizeof(to)) == 0)
		return fd;
	close(fd);
	return -1;
}

static inline bool client_greet(struct client *client, struct talk *talk, SSL_CTX *context)
{
	if (client->ca) {
		BIO *bio = BIO_new_mem_buf(client->ca, -1);
		X509 *one = PEM_read_bio_X509(bio, NULL, NULL, NULL);

		X509_STORE_add_cert(SSL_CTX_get_cert_store(context), one);
		X509_free(one);
		BIO_free(bio);
		SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	}
	talk->ssl = SSL_new(context);
	if (client->alpn)
		SSL_set_alpn_protos(talk->ssl, (const void *)client->alpn,
				    (unsigned)strlen(client->alpn));
	if (client->sni[0]) {
		SSL_set_tlsext_host_name(talk->ssl, client->sni);
		SSL_set1_host(talk->ssl, client->sni);
	}
	SSL_set_fd(talk->ssl, talk->fd);
	ERR_clear_error();
	if (SSL_connect(talk->ssl) == 1)
		return true;
	client->error = ERR_peek_last_error();
	client->verified = SSL_get_verify_result(talk->ssl);
	return false;
}

static inline void *run_client(void *arg)
{
	struct client *client = arg;
	struct talk talk = {.fd = connect_box()};
	SSL_CTX *context = client->sni ? SSL_CTX_new(TLS_client_method()) : NULL;
	bool good = talk.fd >= 0 && (!client->sni || client_greet(client, &talk, context));
	ssize_t n;

	client->connected = good;
	if (good && talk_write(&talk, client->request, strlen(client->request)))
		while (client->len + 1 < sizeof(client->reply) &&
		       (n = talk_read(&talk, client->reply + client->len,
				      sizeof(client->reply) - 1 - client->len)) > 0) {
			client->total += (size_t)n;
			client->len += client->forget ? 0 : (size_t)n;
		}
	if (talk.fd >= 0)
		talk_end(&talk);
	SSL_CTX_free(context);
	client->done = true;
	return NULL;
}

static inline void client_start(struct client *client)
{
	pthread_create(&client->thread, NULL, run_client, client);
}

static inline void client_await(struct client *client)
{
	while (!client->done)
		inside_sleep(2);
	pthread_join(client->thread, NULL);
}

static inline void ask(struct client *client)
{
	client_start(client);
	client_await(client);
}

// When it has so many rows.
static inline struct store_egress_page read_ledger(struct arena *arena, size_t want)
{
	struct store_egress_page page = {0};

	for (int i = 0; i < 1000 && page.count < want; i++) {
		inside_sleep(10);
		err_free(store_egress_page(house.store, BOX, 0, 1000, arena, &page));
	}
	return page;
}
