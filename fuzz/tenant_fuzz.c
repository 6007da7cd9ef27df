// A tenant's terms as JSON, and the words of keys. What is read is written the same, and read
// again; what is refused leaves nothing behind.
#include "types/tenant.h"

#include "base/mem.h"
#include "fuzz.h"
#include "types/key.h"

static void write_terms(const struct tenant *tenant, struct buf *out)
{
	struct json_out json = json_to(out);

	json_begin(&json, '{');
	tenant_put_rights(&json, tenant);
	json_end(&json, '}');
	MUST(buf_ok(out));
}

static void try_terms(struct str text)
{
	auto_json object = NULL;
	auto_json again = NULL;
	auto_tenant first = {0}, second = {0};
	auto_buf once = BUF_INIT(1 << 20), twice = BUF_INIT(1 << 20);
	auto_err bad = json_read(text, &object);

	if (bad)
		return;
	auto_err err = tenant_read(object, &first);

	if (err) {
		MUST(err_http(err) == 400);
		return;
	}
	MUST(first.template_count <= TENANT_TEMPLATES_MAX && !first.name[0]);
	for (size_t i = 0; i < first.template_count; i++)
		MUST(id_is_template(str_of(first.templates[i])));
	MUST(first.image_count <= TENANT_IMAGES_MAX);
	for (size_t i = 0; i < first.image_count; i++)
		MUST(reference_is_pattern(str_of(first.images[i])));
	write_terms(&first, &once);
	auto_err read = json_read(buf_view(&once), &again);
	auto_err same = read ? NULL : tenant_read(again, &second);

	MUST(!read && !same);
	write_terms(&second, &twice);
	MUST(once.len == twice.len && !memcmp(once.at, twice.at, once.len));
	MUST(!memcmp(&first.quota, &second.quota, sizeof(first.quota)) &&
	     first.host == second.host && !strcmp(first.template, second.template));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	char *text = malloc(len + 1);
	struct str all = {text, len};
	unsigned bit = 0;

	memcpy(text, bytes, len);
	text[len] = 0;
	if (key_scope(all, &bit))
		MUST(bit && (bit & (bit - 1)) == 0 && bit <= WHO_MAY_ALL);
	if (who_is_tenant(all)) {
		MUST(len >= 1 && len <= WHO_TENANT_MAX && text[0] != '-');
		MUST(strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == len);
	}
	try_terms(all);
	free(text);
	return 0;
}
