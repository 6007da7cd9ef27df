#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "lib/cove.h"
#include "tap.h"

// A server that says what a test told it to, on connections that come one after the other.
struct fake {
	int listener;
	char url[64];
	pthread_t thread;
	void (*play)(struct fake *fake);
	char seen[8][2048]; // the requests
	int count;
	size_t piece; // bytes sent at a time
};

#define HEAD "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n\r\n"
#define JSON_HEAD "HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s"

// The next request, up to the end of its head.
static int next(struct fake *fake)
{
	int fd = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC);
	char *room = fake->seen[fake->count++ % 8];
	size_t len = 0;

	while (len < sizeof(fake->seen[0]) - 1 && !strstr(room, "\r\n\r\n")) {
		ssize_t n = read(fd, room + len, sizeof(fake->seen[0]) - 1 - len);

		if (n <= 0)
			break;
		len += (size_t)n;
		room[len] = 0;
	}
	return fd;
}

static void say(const struct fake *fake, int fd, const char *text)
{
	size_t len = strlen(text);

	while (len > 0) {
		size_t n = fake->piece && fake->piece < len ? fake->piece : len;

		if (send(fd, text, n, MSG_NOSIGNAL) < 0)
			return;
		text += n;
		len -= n;
		if (fake->piece)
			usleep(200);
	}
}

static void say_json(const struct fake *fake, int fd, const char *status, const char *body)
{
	auto_free char *text = mem_fmt(JSON_HEAD, status, strlen(body), body);

	say(fake, fd, text);
}

static void *thread_main(void *arg)
{
	struct fake *fake = arg;

	fake->play(fake);
	return NULL;
}

static struct cove *begin(struct fake *fake, void (*play)(struct fake *fake))
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(address);
	struct cove_options options = {.url = fake->url, .token = "key"};
	struct cove *cove = NULL;

	fake->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(fake->listener, (struct sockaddr *)&address, len) || listen(fake->listener, 8) ||
	    getsockname(fake->listener, (struct sockaddr *)&address, &len))
		return NULL;
	snprintf(fake->url, sizeof(fake->url), "http://127.0.0.1:%u", ntohs(address.sin_port));
	fake->play = play;
	if (pthread_create(&fake->thread, NULL, thread_main, fake) ||
	    cove_open(&options, &cove, NULL))
		return NULL;
	return cove;
}

static void end(struct fake *fake, struct cove *cove)
{
	cove_close(cove);
	shutdown(fake->listener, SHUT_RDWR);
	pthread_join(fake->thread, NULL);
	close(fake->listener);
}

static void refuse(struct fake *fake)
{
	int fd = next(fake);

	say_json(fake, fd, "404 Not Found",
		 "{\"code\":\"FILE_NOT_FOUND\",\"message\":\"File not found: /x\",\"reason\":\"no_"
		 "file\",\"hint\":\"look elsewhere\",\"retryable\":false}");
	close(fd);
	fd = next(fake);
	say_json(fake, fd, "502 Bad Gateway", "<html>");
	close(fd);
}

TEST(refusal, "a refusal is an error with all that the server said, and nonsense is one, too")
{
	struct fake fake = {0};
	struct cove_error error, other;
	struct cove *cove = begin(&fake, refuse);
	enum cove_kind first = cove_ask(cove, "GET", "/v1/x", NULL, 0, NULL, NULL, &error);
	enum cove_kind second = cove_ask(cove, "GET", "/v1/x", NULL, 0, NULL, NULL, &other);

	end(&fake, cove);
	CHECK(first == COVE_NOT_FOUND && error.kind == first && error.status == 404);
	CHECK_STR(error.code, "FILE_NOT_FOUND");
	CHECK_STR(error.reason, "no_file");
	CHECK_STR(error.message, "File not found: /x");
	CHECK_STR(error.hint, "look elsewhere");
	CHECK(!error.retryable);
	CHECK(second == COVE_BROKEN && other.status == 502 && *other.message);
	CHECK(strstr(fake.seen[0], "Authorization: Bearer key\r\n"));
}

static const char story[] = HEAD
	": a comment\n\n"
	"data: {\"type\":\"start\",\"command\":\"x\"}\n\n"
	"data: {\"type\":\"stdout\",\"encoding\":\"base64\",\"data\":\"AP8K\"}\n\n"
	"data: {\"type\":\"stderr\",\"data\":\"err\"}\r\n\r\n"
	"data: {\"type\":\"stdout\",\"encoding\":\"base64\",\"data\":\"dHdv\"}\n\n"
	"data: {\"type\":\"novelty\"}\n\n"
	"data: {\"type\":\"complete\",\"exitCode\":137,\"ended\":\"oom\",\"stdoutTruncated\":true}"
	"\n\n";

static void tell(struct fake *fake)
{
	int fd = next(fake);

	say(fake, fd, story);
	close(fd);
}

TEST(cut_anywhere, "a stream may be cut anywhere: the same bytes come out")
{
	static const size_t pieces[] = {1, 2, 3, 5, 17, 64, 0};

	for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++) {
		struct fake fake = {.piece = pieces[i]};
		struct cove_output out = {0};
		struct cove *cove = begin(&fake, tell);
		struct cove_box *box = cove_box_at(cove, "web");
		enum cove_kind kind = cove_exec_line(box, "x", &out, NULL);
		bool same = !kind && out.out_len == 6 && !memcmp(out.out, "\0\xff\ntwo", 6);

		cove_box_free(box);
		end(&fake, cove);
		CHECK(same && out.result.exit_code == 137 && out.result.stdout_truncated);
		CHECK_STR(out.err, "err");
		CHECK_STR(out.result.ended, "oom");
		cove_output_free(&out);
	}
}

static void stumble(struct fake *fake)
{
	int fd = next(fake);

	say(fake, fd,
	    HEAD "id: 0\ndata: {\"type\":\"process_info\"}\n\n"
		 "id: 3\ndata: {\"type\":\"stdout\",\"data\":\"one\"}\n\nid: 6\nda");
	close(fd);
	fd = next(fake);
	say(fake, fd,
	    HEAD "id: 6\ndata: {\"type\":\"stdout\",\"data\":\"two\"}\n\n"
		 "id: 6\ndata: {\"type\":\"exit\",\"exitCode\":5}\n\n");
	close(fd);
}

TEST(resumed, "a log whose connection is lost is read on from where it was")
{
	struct fake fake = {0};
	struct cove *cove = begin(&fake, stumble);
	struct cove_box *box = cove_box_at(cove, "web");
	struct cove_process *process = cove_process_at(box, "p 1");
	struct cove_result result = {0};
	struct cove_piece piece = {0};
	auto_buf text = BUF_INIT(64);

	while (!piece.ended && cove_process_next(process, 5000, &piece, NULL) == COVE_OK)
		buf_add(&text, piece.bytes, piece.len);
	enum cove_kind kind = cove_process_wait(process, 0, &result, NULL);

	cove_process_free(process);
	cove_box_free(box);
	end(&fake, cove);
	CHECK(text.len == 6 && memcmp(text.at, "onetwo", 6) == 0);
	CHECK(piece.ended && kind == COVE_OK && result.exit_code == 5 && fake.count == 2);
	CHECK(strstr(fake.seen[0], "/v1/sandboxes/web/api/process/p%201/stream"));
	CHECK(strstr(fake.seen[1], "Last-Event-ID: 3\r\n"));
}

static void keep_silent(struct fake *fake)
{
	int first = next(fake), second = next(fake);

	next(fake); // fails once the test is over
	close(first);
	close(second);
}

static void *cancel(void *arg)
{
	usleep(50000);
	cove_cancel(arg);
	return NULL;
}

TEST(patience, "a call ends when its time is over, or when another thread says so")
{
	struct fake fake = {0};
	struct cove_error error;
	struct cove *cove = begin(&fake, keep_silent);
	pthread_t thread;

	cove_set_timeout(cove, 50);
	enum cove_kind late = cove_ask(cove, "GET", "/v1/x", NULL, 0, NULL, NULL, &error);

	cove_set_timeout(cove, 0);
	pthread_create(&thread, NULL, cancel, cove);
	enum cove_kind cut = cove_ask(cove, "GET", "/v1/x", NULL, 0, NULL, NULL, NULL);

	pthread_join(thread, NULL);
	cove_cancel(cove); // nobody waits: the next one
	enum cove_kind next_one = cove_ask(cove, "GET", "/v1/x", NULL, 0, NULL, NULL, NULL);

	end(&fake, cove);
	CHECK(late == COVE_TIMEOUT && error.retryable && error.status == 0);
	CHECK(cut == COVE_CANCELLED && next_one == COVE_CANCELLED);
}

static void interleave(struct fake *fake)
{
	int fd = next(fake), other;

	say(fake, fd,
	    HEAD "id: 1\ndata: {\"type\":\"start\",\"processId\":\"p1\"}\n\n"
		 "id: 2\ndata: {\"type\":\"stdout\",\"data\":\"go\"}\n\n");
	other = next(fake); // what the callback asks
	say_json(fake, other, "200 OK", "{\"a\":1}");
	close(other);
	other = next(fake); // SIGINT for the cancelled command
	say_json(fake, other, "200 OK", "{}");
	close(other);
	other = next(fake); // and its end
	say_json(fake, other, "200 OK", "{\"exitCode\":130}");
	close(other);
	close(fd);
}

static int ask_inside(void *arg, const void *bytes, size_t len)
{
	char *reply = NULL;

	(void)bytes;
	(void)len;
	if (cove_ask(arg, "GET", "/v1/inside", NULL, 0, &reply, NULL, NULL))
		return 2;
	free(reply);
	return 1; // no more
}

TEST(callbacks, "a callback may ask on its own, and end the command that it hears of")
{
	struct fake fake = {0};
	struct cove *cove = begin(&fake, interleave);
	struct cove_box *box = cove_box_at(cove, "web");
	struct cove_exec_options options = {.command.line = "x",
					    .sink = {.on_stdout = ask_inside, .arg = cove}};
	enum cove_kind kind = cove_exec(box, &options, NULL, NULL);

	cove_box_free(box);
	end(&fake, cove);
	CHECK(kind == COVE_CANCELLED && fake.count == 4);
	CHECK(str_starts(str_of(fake.seen[1]), "GET /v1/inside "));
	CHECK(str_starts(str_of(fake.seen[2]), "POST /v1/sandboxes/web/api/process/p1/signal "));
	CHECK(str_starts(str_of(fake.seen[3]), "GET /v1/sandboxes/web/api/process/p1/wait?"));
}

TEST(nobody, "a bad address and a server that is away are told apart")
{
	struct cove_options bad = {.url = "ftp://x"},
			    away = {.url = "http://127.0.0.1:1", .token = "x"};
	struct cove_error error;
	struct cove *cove = NULL;

	CHECK(cove_open(&bad, &cove, &error) != COVE_OK && !cove && *error.hint);
	CHECK(cove_open(&away, &cove, &error) == COVE_OK);
	CHECK(cove_ask(cove, "GET", "/v1/x", NULL, 0, NULL, NULL, &error) == COVE_UNAVAILABLE);
	CHECK_STR(error.reason, "no_server");
	cove_close(cove);
}

TEST(nonsense, "an invalid request is refused before anything is sent")
{
	struct cove_options options = {.url = "http://127.0.0.1:1", .token = "x"};
	struct cove_command neither = {0},
			    both = {.line = "x", .argv = (const char *const[]){"x", NULL}};
	struct cove_command pair = {.line = "x", .env = (const char *const[]){"NONE", NULL}};
	struct cove_output out;
	struct cove *cove = NULL;

	CHECK(cove_open(&options, &cove, NULL) == COVE_OK);
	struct cove_box *box = cove_box_at(cove, "web");

	CHECK(cove_exec_output(box, &neither, &out, NULL) == COVE_INVALID);
	CHECK(cove_exec_output(box, &both, &out, NULL) == COVE_INVALID);
	CHECK(cove_exec_output(box, &pair, &out, NULL) == COVE_INVALID);
	struct cove_process *process = cove_process_at(box, "p");

	CHECK(cove_process_wait_log(process, "(", 0, NULL, NULL) == COVE_INVALID);
	cove_process_free(process);
	cove_box_free(box);
	cove_close(cove);
}
