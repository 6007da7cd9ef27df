// Reads docker's own files, so that `docker login` counts for cove, too. The daemon never does: it
// has no home and runs no helper. Parsing is apart from I/O.
#include "cli/credential.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/mem.h"
#include "base/secret.h"
#include "cli/stdio.h"
#include "codec/json.h"
#include "codec/text.h"

#define FILE_MAX (1 << 20)
#define IDENTITY_USER "<token>" // a helper's name for an identity token

static void credential_wipe(char **text)
{
	if (*text)
		secret_wipe(*text, strlen(*text));
	free(*text);
	*text = NULL;
}

void credential_done(struct credential *credential)
{
	credential_wipe(&credential->username);
	credential_wipe(&credential->password);
	credential_wipe(&credential->identity);
}

static fallible bad_file(const char *what)
{
	return err_hint(err_new(INVALID, "bad_credentials",
				"the registry credentials are malformed: %s", what),
			"docker login writes them to ~/.docker/config.json");
}

// A key of `auths`: a host, with a scheme and a path in older files.
static bool credential_is_for(struct str key, const char *host)
{
	struct str rest = key, name;

	if (str_starts(rest, "https://"))
		rest = str_skip(rest, 8);
	else if (str_starts(rest, "http://"))
		rest = str_skip(rest, 7);
	str_cut(&rest, '/', &name);
	if (!strcmp(host, "docker.io") &&
	    (str_is(name, "index.docker.io") || str_is(name, "registry-1.docker.io")))
		return true;
	return str_is(name, host);
}

static char *credential_text(struct str text)
{
	return text.len ? mem_dup(text.at, text.len) : NULL;
}

// {"auth": base64 of USER:PASSWORD} or {"username", "password"}, and "identitytoken".
static fallible credential_take(const struct json *entry, struct credential *out)
{
	auto_secret_buf pair = BUF_INIT(64 * 1024);
	struct str auth, rest, user;

	if (json_type(entry) != JSON_OBJECT)
		return bad_file("an entry of 'auths'");
	out->identity = credential_text(json_chars(json_get(entry, "identitytoken")));
	out->username = credential_text(json_chars(json_get(entry, "username")));
	out->password = credential_text(json_chars(json_get(entry, "password")));
	auth = json_chars(json_get(entry, "auth"));
	if (!auth.len || out->username)
		return OK;
	if (!text_unbase64(&pair, auth))
		return bad_file("'auth' is no base64");
	rest = buf_view(&pair);
	if (memchr(rest.at ? rest.at : "", 0, rest.len) || !str_cut(&rest, ':', &user) || !rest.at)
		return bad_file("'auth' is not USER:PASSWORD");
	out->username = credential_text(user);
	out->password = mem_dup(rest.at, rest.len);
	return OK;
}

static bool is_helper(struct str name)
{
	for (size_t i = 0; i < name.len; i++)
		if (!isalnum((unsigned char)name.at[i]) && name.at[i] != '-' && name.at[i] != '_')
			return false;
	return name.len && name.len < 64;
}

fallible credential_read(struct str text, const char *host, struct credential *out,
			 char **out_helper)
{
	const struct json *helpers, *auths;
	auto_json file = NULL;
	auto_err bad = json_read(text, &file);
	struct str key, helper = {0};
	struct json *entry;

	if (bad || json_type(file) != JSON_OBJECT)
		return bad_file("no JSON object");
	helpers = json_get(file, "credHelpers");
	for (size_t at = 0;
	     helpers && json_type(helpers) == JSON_OBJECT && json_next(helpers, &at, &key, &entry);)
		if (entry && credential_is_for(key, host))
			helper = json_chars(entry);
	if (!helper.len)
		helper = json_chars(json_get(file, "credsStore"));
	if (helper.len && !is_helper(helper))
		return bad_file("the name of a helper");
	auths = json_get(file, "auths");
	for (size_t at = 0;
	     auths && json_type(auths) == JSON_OBJECT && json_next(auths, &at, &key, &entry);)
		if (entry && credential_is_for(key, host) && !out->username && !out->identity)
			TRY(credential_take(entry, out));
	*out_helper = helper.len && !out->username && !out->identity
			      ? mem_dup(helper.at, helper.len)
			      : NULL;
	return OK;
}

fallible credential_answer(struct str text, struct credential *out)
{
	auto_json answer = NULL;
	auto_err bad = json_read(text, &answer);
	struct str user, secret;

	if (bad || json_type(answer) != JSON_OBJECT)
		return bad_file("the answer of the helper");
	user = json_chars(json_get(answer, "Username"));
	secret = json_chars(json_get(answer, "Secret"));
	if (!user.len || !secret.len)
		return bad_file("the answer of the helper");
	if (str_is(user, IDENTITY_USER)) {
		out->identity = credential_text(secret);
		return OK;
	}
	out->username = credential_text(user);
	out->password = credential_text(secret);
	return OK;
}

// ----------------------------------------------------------------------------------------------
// I/O

static _Noreturn void helper_run(const char *name, const int in[2], const int out[2])
{
	auto_free char *program = mem_fmt("docker-credential-%s", name);

	dup2(in[0], STDIN_FILENO);
	dup2(out[1], STDOUT_FILENO);
	execlp(program, program, "get", (char *)NULL);
	_exit(127);
}

// docker's name for its own registry is an old URL.
static const char *helper_host(const char *host)
{
	return strcmp(host, "docker.io") != 0 ? host : "https://index.docker.io/v1/";
}

static fallible credential_ask(const char *name, const char *host, struct credential *out)
{
	auto_secret_buf text = BUF_INIT(FILE_MAX);
	int in[2], answer[2], status = 0;
	bool fits = true;
	struct err *err;
	pid_t pid;

	if (pipe2(in, O_CLOEXEC) || pipe2(answer, O_CLOEXEC))
		return err_sys(errno, "make a pipe");
	pid = fork();
	if (pid == 0)
		helper_run(name, in, answer);
	close(in[0]);
	close(answer[1]);
	if (write(in[1], helper_host(host), strlen(helper_host(host))) < 0)
		status = errno;
	close(in[1]);
	err = stdio_read_all(answer[0], &text, &fits);
	close(answer[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		status = -1;
	TRY(err);
	if (status && memmem(text.at ? text.at : "", text.len, "not found", 9))
		return OK; // it has none for this host
	if (status || !fits)
		return err_hint(err_new(UNAVAILABLE, "no_helper",
					"docker-credential-%s gave no credential for %s", name,
					host),
				"the files of docker name this helper: is it installed?");
	return credential_answer(buf_view(&text), out);
}

static fallible credential_of_file(const char *path, const char *host, struct credential *out)
{
	auto_secret_buf text = BUF_INIT(FILE_MAX);
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	auto_free char *helper = NULL;
	bool fits = true;

	if (fd < 0)
		return OK; // absent, or not ours
	TRY(stdio_read_all(fd, &text, &fits));
	if (!fits)
		return bad_file("the file is too large");
	TRY(credential_read(buf_view(&text), host, out, &helper), "read %s", path);
	return helper ? credential_ask(helper, host, out) : OK;
}

fallible credential_find(const char *host, struct credential *out)
{
	const char *home = getenv("HOME"), *docker = getenv("DOCKER_CONFIG");
	const char *runtime = getenv("XDG_RUNTIME_DIR"), *config = getenv("XDG_CONFIG_HOME");
	const char *chosen = getenv("REGISTRY_AUTH_FILE");
	char *const paths[] = {
		chosen ? mem_str(chosen) : NULL,
		docker ? mem_fmt("%s/config.json", docker)
		: home ? mem_fmt("%s/.docker/config.json", home)
		       : NULL,
		runtime ? mem_fmt("%s/containers/auth.json", runtime) : NULL,
		config ? mem_fmt("%s/containers/auth.json", config)
		: home ? mem_fmt("%s/.config/containers/auth.json", home)
		       : NULL,
	};

	struct err *err = OK;

	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		if (paths[i] && !err && !out->username && !out->identity)
			err = credential_of_file(paths[i], host, out);
		free(paths[i]);
	}
	return err;
}
