// agent serve: Thor's route /exec/sandbox-coder on loopback. POST {args, cwd} starts 'cove agent
// run' for the worktree of cwd, 'cove agent reconnect' for --reconnect RUN, 'cove sync out' for
// --pull BOX, and answers with its output as lines of JSON, the last one {"exitCode":N}. The
// agent's arguments are those of our own command line: a request has a prompt and a session only.
//
// Each connection is a process of its own that serves one request. A caller that goes away ends
// nothing: what was begun is brought to its end, and its output is dropped. Requests are untrusted:
// a page of a browser can reach loopback, so a foreign Host or Origin is refused.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/agent.h"
#include "cli/agent_output.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "codec/http1.h"
#include "codec/json.h"
#include "os/fd.h"

#define LISTEN_DEFAULT "127.0.0.1:3004"
#define ROUTE "/exec/sandbox-coder"
#define BODY_MAX (1u << 20)
#define PROMPT_MAX 65536
#define WORDS_MAX 1024
#define CONNS_MAX 64
#define REQUEST_SECONDS 10
#define PIECE 65536
#define DRAIN_MAX 1024

struct agent_server {
	const struct call *call;
	char **roots; // real paths
	size_t root_count;
	char *roots_text; // with colons
	int listener;
	uint16_t port;
	pid_t conns[CONNS_MAX]; // 0: free
};

struct agent_conn {
	const struct agent_server *server;
	int fd;
	bool is_lost; // the caller went away
	struct buf in;
	struct http1_head head;
	char *cwd;
	char **argv; // of the program that answers, by reference or allocated: the process ends
		     // soon
	size_t argc;
};

// --------------------------------------------------------------------------------------- replies

static void agent_serve_write(struct agent_conn *conn, struct str bytes)
{
	if (!conn->is_lost && fd_write_all(conn->fd, bytes.at, bytes.len))
		conn->is_lost = true;
}

static void agent_serve_reply(struct agent_conn *conn, int status, struct str body)
{
	auto_free char *head = mem_fmt(
		"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
		"Connection: close\r\n\r\n",
		status, http1_status_text(status), body.len);

	agent_serve_write(conn, str_of(head));
	agent_serve_write(conn, body);
}

// Thor's form of an error.
static void agent_serve_refuse(struct agent_conn *conn, int status, const char *why)
{
	auto_buf body = BUF_INIT(65536);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	json_put_text(&out, "stdout", "");
	json_put_text(&out, "stderr", why);
	json_put_int(&out, "exitCode", 2);
	json_end(&out, '}');
	agent_serve_reply(conn, status, buf_view(&body));
}

static void agent_serve_chunk(struct agent_conn *conn, struct buf *lines)
{
	auto_buf chunk = BUF_INIT(16u << 20);

	if (!lines->len)
		return;
	buf_fmt(&chunk, "%zx\r\n", lines->len);
	buf_add(&chunk, lines->at, lines->len);
	buf_text(&chunk, "\r\n");
	buf_clear(lines);
	agent_serve_write(conn, buf_view(&chunk));
}

// --------------------------------------------------------------------------------------- requests

static bool agent_serve_read(struct agent_conn *conn)
{
	char *room = buf_space(&conn->in, PIECE);
	ssize_t got = room ? read(conn->fd, room, PIECE) : -1;

	if (got > 0)
		buf_grew(&conn->in, (size_t)got);
	return got > 0;
}

// The whole request. False: it was answered, or there is none.
static bool agent_serve_take(struct agent_conn *conn)
{
	enum http1_verdict verdict;

	while ((verdict = http1_request(buf_view(&conn->in), &conn->head)) == HTTP1_MORE)
		if (!agent_serve_read(conn))
			return false;
	if (verdict != HTTP1_DONE) {
		agent_serve_refuse(conn, 400, "the request is malformed");
		return false;
	}
	if (conn->head.chunked || conn->head.length > BODY_MAX) {
		agent_serve_refuse(conn, 413, "the body needs a length, of at most 1 MiB");
		return false;
	}
	while (conn->in.len < conn->head.size + conn->head.length)
		if (!agent_serve_read(conn))
			return false;
	// The text may have moved.
	return http1_request(buf_view(&conn->in), &conn->head) == HTTP1_DONE;
}

static bool agent_serve_is_ours(const struct agent_server *server, struct str host)
{
	static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		auto_free char *name = mem_fmt("%s:%u", names[i], server->port);

		if (str_eq_nocase(host, str_of(name)))
			return true;
	}
	return false;
}

// Whether the request may be one of a local program, and of no page of another origin.
static bool agent_serve_is_local(const struct agent_conn *conn)
{
	struct str host = http1_field(&conn->head, "Host");
	struct str origin = http1_field(&conn->head, "Origin");

	if (!agent_serve_is_ours(conn->server, host))
		return false;
	return !origin.at || (str_starts(origin, "http://") &&
			      agent_serve_is_ours(conn->server, str_skip(origin, 7)));
}

static bool agent_serve_is_beneath(const char *path, const char *root)
{
	size_t len = strcmp(root, "/") ? strlen(root) : 0;

	return !strncmp(path, root, len) && (path[len] == '/' || !path[len]);
}

static const char *agent_serve_set_cwd(struct agent_conn *conn, const struct json *body)
{
	struct str text = json_chars(json_get(body, "cwd"));
	auto_free char *given = mem_dup(text.at ? text.at : "", text.len);

	if (*given != '/' || strlen(given) != text.len)
		return "cwd must be an absolute path";
	conn->cwd = realpath(given, NULL);
	for (size_t i = 0; conn->cwd && i < conn->server->root_count; i++)
		if (agent_serve_is_beneath(conn->cwd, conn->server->roots[i]))
			return NULL;
	return conn->cwd ? "cwd is not beneath an allowed root" : "cwd does not exist";
}

static void agent_serve_word(struct agent_conn *conn, char *word)
{
	if (conn->argc < WORDS_MAX - 1)
		conn->argv[conn->argc++] = word;
}

// The options of our own command line that `verb` takes, too.
static void agent_serve_options(struct agent_conn *conn, const struct verb *verb)
{
	const struct call *call = conn->server->call;

	for (size_t i = 0; i < call->given_count; i++) {
		const struct given *given = &call->given[i];

		for (const struct option *row = cli_options; row->name; row++) {
			if (row->opt != given->opt || !call_takes(verb, row) ||
			    !call_takes(call->verb, row))
				continue;
			agent_serve_word(conn, given->value
						       ? mem_fmt("--%s=%s", row->name, given->value)
						       : mem_fmt("--%s", row->name));
			break;
		}
	}
}

static void agent_serve_verb(struct agent_conn *conn, const char *group, const char *name)
{
	char *words[] = {mem_str(group), mem_str(name)};
	int used;

	conn->argv = mem_new(WORDS_MAX * sizeof(*conn->argv));
	agent_serve_word(conn, mem_str("cove"));
	agent_serve_word(conn, words[0]);
	agent_serve_word(conn, words[1]);
	agent_serve_options(conn, call_verb(conn->server->call->grammar, 2, words, &used));
}

// 'agent run' with the agent of our command line.
static const char *agent_serve_run(struct agent_conn *conn, struct str session, struct buf *prompt)
{
	const struct call *call = conn->server->call;
	char **words = call->words;

	if (!buf_ok(prompt) || !prompt->len)
		return "the prompt is empty or exceeds 64 KiB";
	agent_serve_verb(conn, "agent", "run");
	if (session.at)
		agent_serve_word(conn, mem_fmt("--session=" STR_FMT, STR_ARG(session)));
	if (!call_has(call, OPT_AGENT))
		agent_serve_word(conn, mem_fmt("--env=COVE_AGENT_PROMPT=%s", prompt->at));
	agent_serve_word(conn, mem_str("--"));
	if (call_has(call, OPT_AGENT))
		agent_serve_word(conn, prompt->at);
	for (; *words; words++)
		if (words > call->words || strcmp(*words, "--") != 0)
			agent_serve_word(conn, strcmp(*words, "{prompt}") ? *words : prompt->at);
	return NULL;
}

static bool agent_serve_are_texts(const struct json *args)
{
	size_t count = args && json_type(args) == JSON_ARRAY ? json_count(args) : 0;
	bool are_texts = count > 0;

	for (size_t i = 0; i < count; i++) {
		struct str word = json_chars(json_at(args, i));

		are_texts = are_texts && json_type(json_at(args, i)) == JSON_STRING &&
			    !memchr(word.at, 0, word.len);
	}
	return are_texts;
}

// Sets the program for the request. Returns why it cannot be.
static const char *agent_serve_parse(struct agent_conn *conn, const struct json *body,
				     struct buf *prompt)
{
	const struct json *args = json_get(body, "args");
	size_t count = args && json_type(args) == JSON_ARRAY ? json_count(args) : 0, at = 0;
	struct str first = count ? json_chars(json_at(args, 0)) : STR("");
	struct str second = count > 1 ? json_chars(json_at(args, 1)) : (struct str){0};
	bool reconnects = str_is(first, "--reconnect"), pulls = str_is(first, "--pull");
	struct str session = {0};

	if (!agent_serve_are_texts(args))
		return "args must be a list of texts";
	if (reconnects || pulls) {
		if (count != 2 || !second.len || *second.at == '-')
			return "--reconnect and --pull need one id";
		agent_serve_verb(conn, reconnects ? "agent" : "sync",
				 reconnects ? "reconnect" : "out");
		agent_serve_word(conn, pulls ? mem_fmt("--sandbox=" STR_FMT, STR_ARG(second))
					     : mem_dup(second.at, second.len));
		return NULL;
	}
	if (str_is(first, "--session")) {
		if (count < 3 || !second.len)
			return "--session needs an id and a prompt";
		session = second;
		at = 2;
	}
	for (; at < count; at++) {
		struct str word = json_chars(json_at(args, at));

		buf_add(prompt, prompt->len ? " " : "", prompt->len != 0);
		buf_add(prompt, word.at, word.len);
	}
	buf_char(prompt, 0);
	return agent_serve_run(conn, session, prompt);
}

// -------------------------------------------------------------------------------------- programs

__attribute__((noreturn)) static void agent_serve_become(struct agent_conn *conn, const int out[2],
							 const int err[2])
{
	int null = open("/dev/null", O_RDONLY);
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	setsid();
	setenv(AGENT_THOR, "1", true);
	setenv("COVE_AGENT_ROOTS", conn->server->roots_text, true);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out[1], STDOUT_FILENO) < 0 ||
	    dup2(err[1], STDERR_FILENO) < 0 || chdir(conn->cwd))
		_exit(2);
	execv("/proc/self/exe", conn->argv);
	_exit(2);
}

// Passes on what is there. False: the end.
static bool agent_serve_pump(struct agent_conn *conn, int fd, struct agent_output *output)
{
	auto_buf lines = BUF_INIT(8u << 20);
	auto_free char *room = mem_new(PIECE);
	ssize_t got = read(fd, room, PIECE);

	if (got < 0 && errno == EINTR)
		return true;
	agent_output_piece(output, (struct str){room, got > 0 ? (size_t)got : 0}, got <= 0, &lines);
	agent_serve_chunk(conn, &lines);
	return got > 0;
}

// Every 15 s of silence an empty line keeps proxies from closing the connection.
static void agent_serve_beat(struct agent_conn *conn)
{
	auto_buf line = BUF_INIT(64);

	buf_char(&line, '\n');
	agent_serve_chunk(conn, &line);
}

static void agent_serve_follow(struct agent_conn *conn, int out, int err)
{
	struct agent_output outputs[] = {{"stdout", BUF_INIT(2 * PIECE)},
					 {"stderr", BUF_INIT(2 * PIECE)}};
	struct pollfd polls[] = {{.fd = out, .events = POLLIN}, {.fd = err, .events = POLLIN}};

	while (polls[0].fd >= 0 || polls[1].fd >= 0) {
		if (!poll(polls, 2, 15000))
			agent_serve_beat(conn);
		for (size_t i = 0; i < 2; i++)
			if (polls[i].revents && !agent_serve_pump(conn, polls[i].fd, &outputs[i]))
				polls[i].fd = -1;
	}
	buf_done(&outputs[0].held);
	buf_done(&outputs[1].held);
}

static void agent_serve_start(struct agent_conn *conn)
{
	static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n"
				   "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
	auto_buf line = BUF_INIT(256);
	int out[2], err[2], status = 0;
	pid_t child;

	if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC) || (child = fork()) < 0) {
		agent_serve_refuse(conn, 503, "this host is out of processes or files");
		return;
	}
	if (!child)
		agent_serve_become(conn, out, err);
	close(out[1]);
	close(err[1]);
	agent_serve_write(conn, str_of(head));
	agent_serve_follow(conn, out[0], err[0]);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	buf_fmt(&line, "{\"exitCode\":%d}\n", WIFEXITED(status) ? WEXITSTATUS(status) : 2);
	agent_serve_chunk(conn, &line);
	agent_serve_write(conn, STR("0\r\n\r\n"));
}

static void agent_serve_answer(struct agent_conn *conn)
{
	bool is_route = str_is(conn->head.target, ROUTE);
	auto_buf prompt = BUF_INIT(PROMPT_MAX);
	auto_json body = NULL;
	auto_err err = OK;
	const char *why;

	if (!agent_serve_is_local(conn)) {
		agent_serve_refuse(conn, 403, "the Host or Origin is not that of this server");
		return;
	}
	if (str_is(conn->head.method, "GET") && str_is(conn->head.target, "/health")) {
		agent_serve_reply(conn, 200, STR("{\"status\":\"ok\",\"service\":\"cove\"}"));
		return;
	}
	if (!is_route || !str_is(conn->head.method, "POST")) {
		agent_serve_refuse(conn, is_route ? 405 : 404, "this is POST " ROUTE);
		return;
	}
	err = json_read((struct str){conn->in.at + conn->head.size, conn->head.length}, &body);
	if (err || json_type(body) != JSON_OBJECT) {
		agent_serve_refuse(conn, 400,
				   "the body must be {\"args\": [...], \"cwd\": \"...\"}");
		return;
	}
	why = agent_serve_set_cwd(conn, body);
	if (!why)
		why = agent_serve_parse(conn, body, &prompt);
	if (why)
		agent_serve_refuse(conn, 400, why);
	else
		agent_serve_start(conn);
}

__attribute__((noreturn)) static void agent_serve_conn(const struct agent_server *server, int fd)
{
	const struct timeval patience = {.tv_sec = REQUEST_SECONDS};
	struct agent_conn *conn = mem_new_of(struct agent_conn);

	conn->server = server;
	conn->fd = fd;
	conn->in = BUF_INIT(HTTP1_HEAD_MAX + BODY_MAX + 2 * PIECE);
	close(server->listener);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (agent_serve_take(conn))
		agent_serve_answer(conn);
	// The body of a refused caller is read, so that it gets the answer, too.
	shutdown(fd, SHUT_WR);
	for (unsigned pieces = 0; pieces < DRAIN_MAX && agent_serve_read(conn); pieces++)
		buf_clear(&conn->in);
	_exit(0);
}

// ------------------------------------------------------------------------------------------ serve

static fallible agent_serve_listen(struct agent_server *server)
{
	const char *given = call_value(server->call, OPT_LISTEN);
	auto_free char *text = mem_str(given ? given : LISTEN_DEFAULT);
	char *colon = strrchr(text, ':');
	struct sockaddr_in to = {.sin_family = AF_INET};
	socklen_t len = sizeof(to);
	uint64_t port = 0;
	int on = 1;

	if (colon)
		*colon = 0;
	if (!colon || !str_to_u64(str_of(colon + 1), 0, UINT16_MAX, &port) ||
	    inet_pton(AF_INET, text, &to.sin_addr) != 1)
		return err_new(INVALID, "bad_value", "--listen '%s' is no ADDRESS:PORT", given);
	if (ntohl(to.sin_addr.s_addr) >> 24 != 127)
		return err_hint(err_new(FORBIDDEN, "not_loopback",
					"--listen '%s' is no address of loopback", given),
				"whoever reaches the port can run the agent; a proxy that checks "
				"its callers may stand before it");
	to.sin_port = htons((uint16_t)port);
	server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (server->listener < 0)
		return err_sys(errno, "make a socket");
	setsockopt(server->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(server->listener, (struct sockaddr *)&to, len) || listen(server->listener, 64))
		return err_new(CONFLICT, "address_in_use", "cannot listen on %s: %s",
			       given ? given : LISTEN_DEFAULT, strerror(errno));
	getsockname(server->listener, (struct sockaddr *)&to, &len);
	server->port = ntohs(to.sin_port);
	print_line("http://%s:%u" ROUTE, text, server->port);
	fflush(stdout);
	return OK;
}

static fallible agent_serve_roots(struct agent_server *server)
{
	auto_buf text = BUF_INIT(1u << 20);
	const char *word;

	for (size_t at = 0; call_next(server->call, OPT_ROOT, &at, &word);) {
		char *real = realpath(word, NULL);

		if (!real || strchr(real, ':')) {
			free(real);
			return err_new(INVALID, "bad_value",
				       "--root '%s' is no directory, or has "
				       "a colon",
				       word);
		}
		server->roots = mem_grow(server->roots, server->root_count + 1,
					 sizeof(*server->roots));
		server->roots[server->root_count++] = real;
		buf_fmt(&text, "%s%s", text.len ? ":" : "", real);
	}
	if (!server->root_count)
		return err_hint(err_new(INVALID, "no_root", "--root is missing"),
				"worktrees beneath --root DIR are those that a request may name");
	server->roots_text = mem_str(text.at);
	return OK;
}

static void agent_serve_reap(struct agent_server *server)
{
	for (size_t i = 0; i < CONNS_MAX; i++)
		if (server->conns[i] && waitpid(server->conns[i], NULL, WNOHANG) > 0)
			server->conns[i] = 0;
}

static void agent_serve_accept(struct agent_server *server)
{
	auto_fd fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
	size_t slot = 0;

	agent_serve_reap(server);
	while (slot < CONNS_MAX && server->conns[slot])
		slot++;
	if (fd < 0)
		return;
	if (slot == CONNS_MAX) {
		static const char busy[] = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\n"
					   "Content-Length: 0\r\nConnection: close\r\n\r\n";

		fd_write_all(fd, busy, sizeof(busy) - 1);
		return;
	}
	server->conns[slot] = fork();
	if (server->conns[slot] == 0)
		agent_serve_conn(server, fd);
	if (server->conns[slot] < 0)
		server->conns[slot] = 0;
}

static void agent_serve_done(struct agent_server *server)
{
	for (size_t i = 0; i < server->root_count; i++)
		free(server->roots[i]);
	free(server->roots);
	free(server->roots_text);
	fd_drop(&server->listener);
}

fallible cli_agent_serve(struct call *call)
{
	on_exit_call(agent_serve_done) struct agent_server server = {.call = call, .listener = -1};
	struct pollfd polls[] = {{.events = POLLIN}, {.events = POLLIN}};

	if (!call->word_count == !call_has(call, OPT_AGENT))
		return err_hint(err_new(INVALID, "bad_words",
					"either --agent or a command is "
					"needed"),
				"cove agent serve --root ~/work -- opencode run {prompt}");
	TRY(agent_serve_roots(&server));
	TRY(agent_serve_listen(&server));
	interrupt_arm(NULL);
	polls[0].fd = server.listener;
	polls[1].fd = interrupt_fd();
	while (!interrupt_signal()) {
		poll(polls, 2, -1);
		if (polls[0].revents)
			agent_serve_accept(&server);
	}
	return OK;
}
