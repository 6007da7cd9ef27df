// The configuration, from one table of rows: file, then environment, then flags, each overriding
// the one before. The rows also make the help, the example file and docs/CONFIGURATION.md. A value
// that does not parse is INVALID, with the place where it was given.
#include "serve/config.h"

#include <errno.h>
#include <ini.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "codec/url.h"
#include "types/address.h"
#include "types/key.h"
#include "types/owner.h"
#include "types/profile.h"
#include "types/sink.h"
#include "types/usage.h"

enum type { TEXT, COUNT, BYTES, TIME, CHOICE, TYPE_MASK = 7, LIVE }; // LIVE: a reload changes it

struct row {
	const char *name, *env; // the flag is --name, the key in the file is name
	unsigned kind;		// a type, or with LIVE
	size_t at;
	const char *otherwise; // the default, for the help
	uint64_t min, max;
	const char *arg;  // "NUMBER"; for a CHOICE its values, "a|b"
	const char *help; // NULL: internal, between serve and its children
};

#define AT(field) offsetof(struct config, field)
#define FD_MAX 1048576

// clang-format off
static const struct row rows[] = {
	{"data", "COVE_DATA", TEXT, AT(data), CONFIG_DATA, 0, 0, "DIR",
	 "directory of the state: database, disks, templates, keys"},
	{"run", "COVE_RUN", TEXT, AT(run), "", 0, 0, "DIR",
	 "directory of sockets (" CONFIG_RUN ", or run in the data directory if that is not the default)"},
	{"listen", "COVE_LISTEN", TEXT, AT(listen), "127.0.0.1:8484", 0, 0, "ADDR:PORT",
	 "addresses that the API listens on, separated by commas; port 0: any port"},
	{"hosts", "COVE_HOSTS", TEXT | LIVE, AT(hosts), "", 0, 0, "NAMES",
	 "further host names that clients may use for this host, separated by commas"},
	{"users-group", "COVE_USERS_GROUP", TEXT, AT(users_group), "cove-users", 0, 0, "GROUP",
	 "group whose members may use api.sock of the run directory without a key; none: no socket"},
	{"users-scopes", "COVE_USERS_SCOPES", TEXT | LIVE, AT(users_scopes), "read,make,use", 0, 0, "WORDS",
	 "scopes of these users, separated by commas (read,make,use,templates,admin)"},
	{"users-tenant", "COVE_USERS_TENANT", TEXT | LIVE, AT(users_tenant), "", 0, 0, "NAME",
	 "one tenant for all these users (default: one for each user, such as uid-1000)"},
	{"users-host", "COVE_USERS_HOST", CHOICE | LIVE, AT(users_host), "on", 0, 0, "off|on",
	 "whether these users may use the template host"},
	{"boxes-max", "COVE_BOXES_MAX", COUNT | LIVE, AT(boxes_max), "10000", 1, 16384, "NUMBER",
	 "maximum number of sandboxes"},
	{"loops-max", "COVE_LOOPS_MAX", COUNT, AT(loops_max), "0", 0, 1048576, "NUMBER",
	 "maximum number of loop devices, where disks are images; 0: as many as the kernel has"},
	{"warm", "COVE_WARM", TEXT, AT(warm), "", 0, 0, "LANGUAGES",
	 "languages of which every sandbox gets one prewarmed interpreter (python,javascript,typescript)"},
	{"warm-max", "COVE_WARM_MAX", COUNT, AT(warm_max), "64", 0, 16384, "NUMBER",
	 "maximum number of prewarmed interpreters on this host"},
	{"max-output", "COVE_MAX_OUTPUT", BYTES | LIVE, AT(output_max), "1G", 1 << 20, 1ull << 30, "SIZE",
	 "highest outputMB that a sandbox may ask for"},
	{"conns-max", "COVE_CONNS_MAX", COUNT | LIVE, AT(conns_max), "4096", 16, 100000, "NUMBER",
	 "maximum number of connections"},
	{"threads", "COVE_THREADS", COUNT, AT(threads), "4", 1, 64, "NUMBER",
	 "threads for blocking calls"},
	{"grace", "COVE_GRACE", TIME | LIVE, AT(grace_ms), "3s", 0, 600000, "TIME",
	 "how long running requests may continue after SIGTERM"},
	{"sleep-after", "COVE_SLEEP_AFTER", TIME | LIVE, AT(sleep_ms), "0s", 0, 30ull * 86400000, "TIME",
	 "after how long an idle sandbox without a sleepAfter of its own is frozen (10m)"},
	{"frozen-for", "COVE_FROZEN_FOR", TIME | LIVE, AT(frozen_ms), "0s", 0, 30ull * 86400000, "TIME",
	 "after how long a frozen sandbox is stopped; its files stay (10m)"},
	{"sweep-every", "COVE_SWEEP_EVERY", TIME | LIVE, AT(sweep_ms), "0s", 0, 86400000, "TIME",
	 "interval of the janitor (5m)"},
	{"queue-wait", "COVE_QUEUE_WAIT", TIME | LIVE, AT(queue_ms), "2s", 1, 600000, "TIME",
	 "how long a request waits for room on a full host"},
	{"on-term", "COVE_ON_TERM", CHOICE | LIVE, AT(on_term), "stop", 0, 0, "stop|handoff",
	 "what SIGTERM does with sandboxes: end their processes, or leave them to the next start"},
	{"store", "COVE_STORE", CHOICE, AT(store), "sqlite", 0, 0, "sqlite|memory",
	 "where the state is stored; memory is lost with the process, for trials"},
	{"isolate-orgs", "COVE_ISOLATE_ORGS", TEXT | LIVE, AT(isolate), "", 0, 0, "NAMES",
	 "organisations whose agent sessions get a sandbox each, separated by commas; *: all"},
	{"shared-tag", "COVE_SHARED_TAG", TEXT | LIVE, AT(tag), "", 0, 0, "WORD",
	 "a tag that moves new agent sessions of every owner to new shared sandboxes"},
	{"class-standard", "COVE_CLASS_STANDARD", TEXT | LIVE, AT(class_standard), "", 0, 0, "SIZES",
	 "size of shared sandboxes of agent sessions (cpus=4 memory=12G disk=20G pids=1024 max=0)"},
	{"class-small", "COVE_CLASS_SMALL", TEXT | LIVE, AT(class_small), "", 0, 0, "SIZES",
	 "size of sandboxes with one agent session (cpus=1 memory=6G disk=12G pids=1024 max=0)"},
	{"session-space", "COVE_SESSION_SPACE", BYTES | LIVE, AT(session_space), "2G", 0, 1ull << 50, "SIZE",
	 "free space that the workspace of a new agent session needs"},
	{"session-input", "COVE_SESSION_INPUT", BYTES | LIVE, AT(session_input), "64M", 4096, 1ull << 40, "SIZE",
	 "maximum input of all runs of a tenant that have not ended"},
	{"session-retention", "COVE_SESSION_RETENTION", TIME | LIVE, AT(retention_ms), "0s", 0, 3650ull * 86400000, "TIME",
	 "after how long an unused agent session is deleted (90 days)"},
	{"audit-retention", "COVE_AUDIT_RETENTION", TIME | LIVE, AT(audit_ms), "0s", 0, 3650ull * 86400000, "TIME",
	 "after how long a row of the audit log is removed (365 days)"},
	{"audit-max", "COVE_AUDIT_MAX", COUNT | LIVE, AT(audit_rows), "100000", 100, 1ull << 40, "NUMBER",
	 "maximum number of rows of the audit log"},
	{"egress-exceptions", "COVE_EGRESS_EXCEPTIONS", TEXT, AT(exceptions), "", 0, 0, "LIST",
	 "addresses of this host and its networks that sandboxes may reach: ADDRESS[/BITS][:PORT], separated by commas"},
	{"egress-hosts", "COVE_EGRESS_HOSTS", TEXT, AT(names), "", 0, 0, "LIST",
	 "names that are resolved without DNS: NAME=ADDRESS, separated by commas"},
	{"egress-rate", "COVE_EGRESS_RATE", COUNT, AT(egress_rate), "200", 1, 1000000, "NUMBER",
	 "highest number of new connections a second that a policy may ask for"},
	{"egress-ca", "COVE_EGRESS_CA", TEXT, AT(ca), "", 0, 0, "FILE",
	 "further certificates that the daemon trusts for connections of sandboxes, as PEM"},
	{"registry-insecure", "COVE_REGISTRY_INSECURE", TEXT | LIVE, AT(registry_insecure), "", 0, 0, "HOSTS",
	 "registries that are asked without TLS: HOST[:PORT], separated by commas"},
	{"registry-mirrors", "COVE_REGISTRY_MIRRORS", TEXT | LIVE, AT(registry_mirrors), "", 0, 0, "LIST",
	 "mirrors that are asked before a registry, in order: HOST=URL[/PREFIX], separated by commas"},
	{"registry-exceptions", "COVE_REGISTRY_EXCEPTIONS", TEXT | LIVE, AT(registry_exceptions), "", 0, 0, "LIST",
	 "private addresses of registries that cove may reach: ADDRESS[/BITS][:PORT], separated by commas"},
	{"registry-ca", "COVE_REGISTRY_CA", TEXT, AT(registry_ca), "", 0, 0, "FILE",
	 "further certificates that registries may have, as PEM"},
	{"image-max", "COVE_IMAGE_MAX", BYTES | LIVE, AT(image_max), "20G", 1 << 20, 1ull << 40, "SIZE",
	 "largest image that may be pulled"},
	{"images-cache", "COVE_IMAGES_CACHE", BYTES | LIVE, AT(images_cache), "0", 0, 1ull << 50, "SIZE",
	 "when all images take more, those that only creates have pulled are removed, oldest use first; 0: a fifth of the disk"},
	{"pull-wait", "COVE_PULL_WAIT", TIME | LIVE, AT(pull_ms), "15m", 1000, 24 * 3600000ull, "TIME",
	 "how long a create waits for the pull of its image; the pull goes on"},
	{"preview-listen", "COVE_PREVIEW_LISTEN", TEXT, AT(preview_listen), "", 0, 0, "ADDR:PORT",
	 "addresses that previews listen on, separated by commas; none: no previews (127.0.0.1:8485, or any port when that is taken)"},
	{"preview-domain", "COVE_PREVIEW_DOMAIN", TEXT, AT(preview_domain), "localhost", 0, 0, "[PROTO://]NAME[:PORT]",
	 "previews have the host name PORT-ID-TOKEN.NAME; all names below NAME must lead to this host"},
	{"preview-cert", "COVE_PREVIEW_CERT", TEXT | LIVE, AT(preview_cert), "", 0, 0, "FILE",
	 "certificate of *.NAME with its chain, as PEM: serve previews by TLS"},
	{"preview-key", "COVE_PREVIEW_KEY", TEXT | LIVE, AT(preview_key), "", 0, 0, "FILE",
	 "private key of that certificate, as PEM"},
	{"prices-currency", "COVE_PRICES_CURRENCY", TEXT | LIVE, AT(price_currency), "", 0, 0, "WORD",
	 "currency of the prices below, as in EUR"},
	{"prices-cpu-second", "COVE_PRICES_CPU_SECOND", TEXT | LIVE, AT(price_cpu_second), "0", 0, 0, "PRICE",
	 "price of a second of CPU time, a decimal number"},
	{"prices-gib-second", "COVE_PRICES_GIB_SECOND", TEXT | LIVE, AT(price_gib_second), "0", 0, 0, "PRICE",
	 "price of a GiB of memory for a second"},
	{"prices-gib-hour", "COVE_PRICES_GIB_HOUR", TEXT | LIVE, AT(price_gib_hour), "0", 0, 0, "PRICE",
	 "price of a GiB of disk for an hour"},
	{"prices-request", "COVE_PRICES_REQUEST", TEXT | LIVE, AT(price_request), "0", 0, 0, "PRICE",
	 "price of a network request"},
	{"history-max", "COVE_HISTORY_MAX", BYTES, AT(history_max), "512M", 1 << 20, 1ull << 50, "SIZE",
	 "maximum size of the file with the history of the last week"},
	{"executions-concurrency", "COVE_EXECUTIONS_CONCURRENCY", COUNT | LIVE, AT(executions_max), "0", 0, 16384, "NUMBER",
	 "maximum number of executions that have a sandbox at a time; 0: as many as there is room for"},
	{"executions-queue-max", "COVE_EXECUTIONS_QUEUE_MAX", COUNT | LIVE, AT(executions_queue), "1000", 1, 100000, "NUMBER",
	 "maximum number of executions that wait for it"},
	{"executions-results-max", "COVE_EXECUTIONS_RESULTS_MAX", BYTES | LIVE, AT(results_max), "0", 0, 1ull << 50, "SIZE",
	 "cap of the logs and artifacts of all executions; past it the oldest are removed; 0: none"},
	{"dev", "COVE_DEV", CHOICE, AT(dev), "off", 0, 0, "off|on",
	 "allow features for tests: injected faults, another time scale"},
	{"time-scale", "COVE_TIME_SCALE", COUNT, AT(time_scale), "1", 1, 100000, "NUMBER",
	 "divide every timer by this number; only with --dev"},
	{"disk", "COVE_DISK", CHOICE, AT(disk), "", 0, 0, "btrfs|ext4-image|directory",
	 "how disks of sandboxes are stored (the best that works)"},
	{"pool-start", "COVE_POOL_START", BYTES, AT(pool_start), "256M", 256 << 20, 1ull << 50, "SIZE",
	 "smallest size of the file with the disks of sandboxes (pool.img, btrfs); the file grows and shrinks with their use"},
	{"pool-max", "COVE_POOL_MAX", BYTES, AT(pool_max), "0", 0, 1ull << 50, "SIZE",
	 "largest size of that file; 0: what the disk has, less 5 % or 2 GiB"},
	{"steer", "COVE_STEER", CHOICE, AT(steer), "", 0, 0, "sk_lookup|nft",
	 "how connections of sandboxes are steered to the daemon (the best that works)"},
	{"log-level", "COVE_LOG_LEVEL", CHOICE | LIVE, AT(log_level), "", 0, 0, "debug|info|warn|error",
	 "log level (info); the warden uses the value of its start"},
	{"log-format", "COVE_LOG_FORMAT", CHOICE | LIVE, AT(log_format), "", 0, 0, "json|text",
	 "format of the log (text on a terminal, else json); the warden uses the value of its start"},
	{"ready-fd", NULL, COUNT, AT(fd_ready), "0", 0, FD_MAX, "FD",
	 "write the address to this descriptor when cove serves"},
	{"fd-listen", NULL, TEXT, AT(fd_listen), "", 0, 0, NULL, NULL},
	{"fd-preview", NULL, TEXT, AT(fd_preview), "", 0, 0, NULL, NULL},
	{"fd-users", NULL, COUNT, AT(fd_users), "0", 0, FD_MAX, NULL, NULL},
	{"fd-cert", NULL, COUNT, AT(fd_cert), "0", 0, FD_MAX, NULL, NULL},
	{"fd-key", NULL, COUNT, AT(fd_key), "0", 0, FD_MAX, NULL, NULL},
	{"fd-lock", NULL, COUNT, AT(fd_lock), "0", 0, FD_MAX, NULL, NULL},
	{"fd-live", NULL, COUNT, AT(fd_live), "0", 0, FD_MAX, NULL, NULL},
	{"fd-holds", NULL, COUNT, AT(fd_holds), "0", 0, FD_MAX, NULL, NULL},
	{"alert-sinks", NULL, TEXT, AT(sinks), "", 0, 0, NULL, NULL},
	{"sections", NULL, TEXT | LIVE, AT(sections), "", 0, 0, NULL, NULL},
	{"uid", NULL, COUNT, AT(uid), "0", 0, UINT32_MAX, NULL, NULL},
	{"gid", NULL, COUNT, AT(gid), "0", 0, UINT32_MAX, NULL, NULL},
};
// clang-format on
#define ROWS (sizeof(rows) / sizeof(*rows))
_Static_assert(ROWS <= CONFIG_ARGS_MAX, "every row fits into argv");

static enum type type_of(const struct row *row)
{
	return (enum type)(row->kind & TYPE_MASK);
}

static bool is_text(const struct row *row)
{
	return type_of(row) == TEXT || type_of(row) == CHOICE;
}

static char **text_at(struct config *config, const struct row *row)
{
	return (char **)((char *)config + row->at);
}

static uint64_t *number_at(struct config *config, const struct row *row)
{
	return (uint64_t *)((char *)config + row->at);
}

static const struct row *find_row(struct str name)
{
	for (size_t i = 0; i < ROWS; i++)
		if (str_is(name, rows[i].name))
			return &rows[i];
	return NULL;
}

// Without a value: a choice whose default is none.
static bool is_choice(const struct row *row, const char *value)
{
	struct str rest = str_of(row->arg), word;

	if (!*value)
		return !*row->otherwise;
	while (str_cut(&rest, '|', &word))
		if (str_is(word, value))
			return true;
	return false;
}

static bool config_read_number(const struct row *row, const char *value, uint64_t *out)
{
	uint64_t number;
	bool good;

	if (type_of(row) == BYTES)
		good = str_to_bytes(str_of(value), &number);
	else if (type_of(row) == TIME)
		good = str_to_ms(str_of(value), &number);
	else
		good = str_to_u64(str_of(value), 0, UINT64_MAX, &number);
	if (!good || number < row->min || number > row->max)
		return false;
	*out = number;
	return true;
}

// `where` names the place of the value in messages: "COVE_DATA", "--data", "cove.conf line 3".
static fallible config_set(struct config *config, const struct row *row, const char *value,
			   const char *where)
{
	if (type_of(row) == CHOICE && !is_choice(row, value))
		return err_hint(err_new(INVALID, "bad_config", "%s: '%s' is no %s", where, value,
					row->name),
				"it is one of %s", row->arg);
	if (!is_text(row)) {
		if (!config_read_number(row, value, number_at(config, row)))
			return err_hint(err_new(INVALID, "bad_config", "%s: '%s' is no %s", where,
						value, row->name),
					"it is a %s from %llu to %llu",
					type_of(row) == BYTES  ? "size like 64M"
					: type_of(row) == TIME ? "time like 5s (in ms)"
							       : "number",
					(unsigned long long)row->min, (unsigned long long)row->max);
		return OK;
	}
	free(*text_at(config, row));
	*text_at(config, row) = mem_str(value);
	return OK;
}

// A setting of a section [alert.KIND NAME], as a line of the text that types/sink.h reads.
static fallible config_add_sink(struct config *config, const char *section, const char *name,
				const char *value)
{
	const char *sink = section + strlen("alert.");
	char *text;

	if (!strchr(sink, ' ') || strchr(strchr(sink, ' ') + 1, ' ') || strchr(name, ' '))
		return err_hint(err_new(INVALID, "bad_config", "[%s] is malformed", section),
				"write [alert.webhook NAME]");
	text = mem_fmt("%s%s %s=%s\n", config->sinks, sink, name, value);
	free(config->sinks);
	config->sinks = text;
	return OK;
}

static fallible config_check_sinks(const struct config *config)
{
	struct sink sinks[SINKS_MAX];
	size_t count = 0;

	TRY(sinks_read(str_of(config->sinks), sinks, &count));
	sinks_done(sinks, count);
	return OK;
}

struct file {
	struct config *config;
	const char *path;
	struct err *err; // the first error
};

// Sections of records, which are kept as text and read by their owner.
static bool is_record(const char *section)
{
	static const char *const words[] = {"profile "};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strncmp(section, words[i], strlen(words[i])))
			return true;
	return false;
}

static int keep_record(struct config *config, const char *section, const char *name,
		       const char *value)
{
	char *old = config->sections;

	config->sections = mem_fmt("%s[%s]\n%s = %s\n", old, section, name, value);
	free(old);
	return 1;
}

static int on_key(void *user, const char *section, const char *name, const char *value)
{
	struct file *file = user;
	bool plain = !*section || !strcmp(section, "serve");
	auto_free char *full = plain ? mem_str(name) : mem_fmt("%s-%s", section, name);
	const struct row *row;
	bool known;

	if (is_record(section) && !file->err)
		return keep_record(file->config, section, name, value);
	for (char *at = full; *section && (at = strchr(at, '_'));)
		*at = '-'; // [prices] cpu_second
	row = find_row(str_of(full));
	known = row && row->help;
	if (file->err)
		return 0;
	if (!strncmp(section, "alert.", strlen("alert.")))
		file->err = config_add_sink(file->config, section, name, value);
	else if (!known)
		file->err = err_new(INVALID, "bad_config", "there is no setting '%s%s%s'", section,
				    *section ? "." : "", name);
	else
		file->err = config_set(file->config, row, value, name);
	return !file->err;
}

// The error of the callback has no line number: inih returns the first bad line.
static fallible config_read_file(struct config *config, const char *path)
{
	struct file file = {.config = config, .path = path};
	int line = ini_parse(path, on_key, &file);

	if (line == 0)
		return OK;
	if (line < 0)
		return err_new(NOT_FOUND, "no_config", "the configuration file %s cannot be read",
			       path);
	if (!file.err)
		return err_new(INVALID, "bad_config",
			       "%s line %d is neither a section nor a setting", path, line);
	auto_err inner = file.err;

	return err_hint(
		err_new(INVALID, "bad_config", "%s line %d: %s", path, line, err_message(inner)),
		"%s",
		err_hint_of(inner) ? err_hint_of(inner)
				   : "'cove serve --options' lists the settings");
}

static fallible read_environment(struct config *config)
{
	for (size_t i = 0; i < ROWS; i++) {
		const char *value = rows[i].env ? getenv(rows[i].env) : NULL;

		if (value && *value)
			TRY(config_set(config, &rows[i], value, rows[i].env));
	}
	return OK;
}

// The next flag of argv: "--name=value" or "--name value".
static fallible next_flag(int argc, char **argv, int *at, struct str *name, const char **value)
{
	const char *word = argv[*at];
	const char *equals = strchr(word, '=');
	const struct row *row;

	if (strncmp(word, "--", 2) != 0 || !word[2])
		return err_hint(err_new(INVALID, "bad_config", "'%s' is not understood", word),
				"'cove serve --help' lists the options");
	word += 2;
	*name = (struct str){word, equals ? (size_t)(equals - word) : strlen(word)};
	if (!find_row(*name) && !str_is(*name, "config"))
		return err_hint(err_new(INVALID, "bad_config", "there is no option --" STR_FMT,
					STR_ARG(*name)),
				"'cove serve --help' lists the options");
	row = find_row(*name);
	if (!equals && row && row->arg && !strcmp(row->arg, "off|on")) { // on without a value
		*value = "on";
		++*at;
		return OK;
	}
	if (!equals && *at + 1 >= argc)
		return err_new(INVALID, "bad_config", "--%s needs a value", word);
	*value = equals ? equals + 1 : argv[++*at];
	++*at;
	return OK;
}

static fallible find_file(int argc, char **argv, const char **out)
{
	for (int at = 0; at < argc && argv[at];) {
		const char *value = NULL;
		struct str name = {0};

		TRY(next_flag(argc, argv, &at, &name, &value));
		if (str_is(name, "config"))
			*out = value;
	}
	return OK;
}

static fallible serve_config_read_flags(int argc, char **argv, struct config *config)
{
	for (int at = 0; at < argc && argv[at];) {
		const char *value = NULL;
		struct str name = {0};
		char where[64];

		TRY(next_flag(argc, argv, &at, &name, &value));
		snprintf(where, sizeof(where), "--" STR_FMT, STR_ARG(name));
		if (!str_is(name, "config"))
			TRY(config_set(config, find_row(name), value, where));
	}
	return OK;
}

static fallible check_egress(const struct config *config)
{
	if (!address_list_is_valid(str_of(config->exceptions)))
		return err_hint(err_new(INVALID, "bad_config", "egress-exceptions is malformed"),
				"write 10.0.0.0/8, 192.168.1.7:9000, [::1]:443");
	if (!address_names_are_valid(str_of(config->names)))
		return err_hint(err_new(INVALID, "bad_config", "egress-hosts is malformed"),
				"write store.lan=192.168.1.7, other.lan=10.0.0.9");
	return OK;
}

fallible config_users_scopes(const struct config *config, unsigned *out)
{
	struct str rest = str_of(config->users_scopes), word;
	unsigned scopes = 0, bit = 0;

	while (rest.len && str_cut(&rest, ',', &word)) {
		if (!key_scope(str_trim(word), &bit))
			return err_hint(err_new(INVALID, "bad_config",
						"users-scopes: there is no scope '" STR_FMT "'",
						STR_ARG(str_trim(word))),
					"read, make, use, templates, admin");
		scopes |= bit;
	}
	*out = scopes;
	return OK;
}

fallible config_prices(const struct config *config, struct prices *out)
{
	const struct {
		const char *text;
		uint64_t *price;
	} all[] = {
		{config->price_cpu_second, &out->cpu_second},
		{config->price_gib_second, &out->gib_second},
		{config->price_gib_hour, &out->gib_hour},
		{config->price_request, &out->request},
	};

	if (strlen(config->price_currency) >= sizeof(out->currency))
		return err_new(INVALID, "bad_config", "prices-currency has more than %zu letters",
			       sizeof(out->currency) - 1);
	snprintf(out->currency, sizeof(out->currency), "%s", config->price_currency);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (!price_read(str_of(all[i].text), all[i].price))
			return err_hint(err_new(INVALID, "bad_config", "prices: '%s' is no price",
						all[i].text),
					"a decimal number up to 1000000 with 12 digits behind the "
					"point at most, such as 0.000014");
	return OK;
}

static fallible check_registries(const struct config *config)
{
	struct str rest = str_of(config->registry_mirrors), word, host;

	if (!address_list_is_valid(str_of(config->registry_exceptions)))
		return err_hint(err_new(INVALID, "bad_config", "registry-exceptions is malformed"),
				"ADDRESS[/BITS][:PORT], separated by commas");
	while (rest.len && str_cut(&rest, ',', &word)) {
		struct url url;

		word = str_trim(word);
		if (!word.len)
			continue;
		if (!str_cut(&word, '=', &host) || !host.len || !url_absolute(word, &url))
			return err_hint(
				err_new(INVALID, "bad_config", "registry-mirrors is malformed"),
				"HOST=URL[/PREFIX], separated by commas: "
				"docker.io=https://mirror.example.com");
	}
	return OK;
}

static fallible config_check(struct config *config)
{
	struct prices prices;
	auto_profiles profiles = {0};
	unsigned scopes;

	TRY(check_egress(config));
	TRY(check_registries(config));
	TRY(config_prices(config, &prices));
	TRY(config_check_sinks(config));
	if (!*config->preview_cert != !*config->preview_key)
		return err_new(INVALID, "bad_config",
			       "preview-cert and preview-key belong together");
	if (config->time_scale > 1 && strcmp(config->dev, "on") != 0)
		return err_hint(err_new(INVALID, "bad_config", "--time-scale is for --dev only"),
				"leave it out, or give --dev as well");
	if (*config->users_tenant && !who_is_tenant(str_of(config->users_tenant)))
		return err_new(INVALID, "bad_config",
			       "users-tenant is a name like team-a: a-z, 0-9 and '-', 31 at most");
	TRY(config_users_scopes(config, &scopes));
	TRY(profiles_read(str_of(config->sections), &profiles));
	if (*config->tag && !owner_is_label(str_of(config->tag)))
		return err_new(INVALID, "bad_config",
			       "--shared-tag must be 1 to 64 visible "
			       "characters without ':'");
	if (config->pool_max && config->pool_max < config->pool_start)
		return err_new(INVALID, "bad_config", "pool-max is less than pool-start");
	if (!*config->data)
		return err_new(INVALID, "bad_config", "the data directory has no name");
	if (!*config->run) {
		free(config->run);
		config->run = strcmp(config->data, CONFIG_DATA) != 0
				      ? mem_fmt("%s/run", config->data)
				      : mem_str(CONFIG_RUN);
	}
	return OK;
}

static fallible config_fill(int argc, char **argv, struct config *config)
{
	const char *file = NULL;

	TRY(find_file(argc, argv, &file));
	if (file)
		TRY(config_read_file(config, file));
	else if (!access(CONFIG_FILE, R_OK))
		TRY(config_read_file(config, CONFIG_FILE));
	TRY(read_environment(config));
	return serve_config_read_flags(argc, argv, config);
}

void config_done(struct config *config)
{
	for (size_t i = 0; i < ROWS; i++) {
		if (is_text(&rows[i])) {
			free(*text_at(config, &rows[i]));
			*text_at(config, &rows[i]) = NULL;
		}
	}
}

typedef fallible fill_fn(int argc, char **argv, struct config *config);

static fallible read_by(fill_fn *fill_in, int argc, char **argv, struct config *out)
{
	struct config config = {0};
	struct err *err = OK;

	for (size_t i = 0; !err && i < ROWS; i++)
		err = config_set(&config, &rows[i], rows[i].otherwise, "the default");
	if (!err)
		err = fill_in(argc, argv, &config);
	if (!err)
		err = config_check(&config);
	if (err) {
		config_done(&config);
		return err;
	}
	*out = config;
	return OK;
}

fallible config_read(int argc, char **argv, struct config *out)
{
	return read_by(config_fill, argc, argv, out);
}

fallible config_read_flags(int argc, char **argv, struct config *out)
{
	return read_by(serve_config_read_flags, argc, argv, out);
}

static bool differs(struct config *a, struct config *b, const struct row *row)
{
	return is_text(row) ? strcmp(*text_at(a, row), *text_at(b, row)) != 0
			    : *number_at(a, row) != *number_at(b, row);
}

void config_adopt(struct config *to, const struct config *from, struct buf *changed,
		  struct buf *fixed)
{
	struct config *other = (struct config *)from;

	for (size_t i = 0; i < ROWS; i++) {
		const struct row *row = &rows[i];
		struct buf *list = row->kind & LIVE ? changed : fixed;

		if ((!row->help && !(row->kind & LIVE)) || !differs(to, other, row))
			continue;
		if (list)
			buf_fmt(list, "%s%s", list->len ? "," : "", row->name);
		if (row->kind & LIVE && is_text(row)) {
			free(*text_at(to, row));
			*text_at(to, row) = mem_str(*text_at(other, row));
		} else if (row->kind & LIVE) {
			*number_at(to, row) = *number_at(other, row);
		}
	}
}

void config_args(const struct config *config, char **argv, int *count)
{
	for (size_t i = 0; i < ROWS; i++) {
		struct config *from = (struct config *)config;
		const struct row *row = &rows[i];

		if (is_text(row))
			argv[(*count)++] = mem_fmt("--%s=%s", row->name, *text_at(from, row));
		else if (type_of(row) == TIME)
			argv[(*count)++] = mem_fmt("--%s=%llums", row->name,
						   (unsigned long long)*number_at(from, row));
		else
			argv[(*count)++] = mem_fmt("--%s=%llu", row->name,
						   (unsigned long long)*number_at(from, row));
	}
}

// The default as shown: none for numbers of descriptors.
static const char *default_of(const struct row *row)
{
	return row->at == AT(fd_ready) ? "" : row->otherwise;
}

void config_describe(struct buf *out)
{
	for (size_t i = 0; i < ROWS; i++)
		if (rows[i].help)
			buf_fmt(out, "--%-12s %-17s %-16s %s\n", rows[i].name,
				rows[i].env ? rows[i].env : "-",
				*default_of(&rows[i]) ? default_of(&rows[i]) : "-", rows[i].help);
}

// 78 columns after "# ".
static void put_comment(struct buf *out, const char *text)
{
	struct str rest = str_of(text), word;
	size_t column = 0;

	while (rest.len && str_cut(&rest, ' ', &word)) {
		if (!column || column + 1 + word.len > 76) {
			buf_fmt(out, "%s#", column ? "\n" : "");
			column = 0;
		}
		buf_fmt(out, " " STR_FMT, STR_ARG(word));
		column += 1 + word.len;
	}
	buf_char(out, '\n');
}

void config_example(struct buf *out)
{
	buf_text(
		out,
		"# Settings of cove serve; man cove and docs/CONFIGURATION.md say more. What is\n"
		"# commented out is the default. After a change: systemctl reload cove, for those\n"
		"# marked live; the others wait for the next start.\n");
	for (size_t i = 0; i < ROWS; i++) {
		const struct row *row = &rows[i];

		if (!row->help || !row->env)
			continue;
		buf_char(out, '\n');
		put_comment(out, row->help);
		buf_fmt(out, "# (%s%s)\n#%s = %s\n", row->arg, row->kind & LIVE ? "; live" : "",
			row->name, row->otherwise);
	}
}

const struct setting *config_settings(void)
{
	static struct setting settings[ROWS + 1];
	size_t count = 0;

	for (size_t i = 0; i < ROWS; i++)
		if (rows[i].help)
			settings[count++] = (struct setting){rows[i].name, rows[i].arg,
							     rows[i].help, default_of(&rows[i])};
	return settings;
}

bool config_option(size_t at, struct config_option *out)
{
	for (size_t i = 0; i < ROWS; i++) {
		const struct row *row = &rows[i];

		if (!row->help || at--)
			continue;
		*out = (struct config_option){row->name,       row->env,  row->arg,
					      default_of(row), row->help, row->kind & LIVE};
		return true;
	}
	return false;
}
