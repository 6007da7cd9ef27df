// Addresses, lists of exceptions and of names. What is read is written and read again as the same,
// and a list that is refused lets nothing through that is not in a part of it by itself.
#include "types/address.h"

#include <string.h>

#include "fuzz.h"

static void try_address(struct str text)
{
	struct address one, two;
	char shown[ADDRESS_TEXT];

	if (!address_read(text, &one))
		return;
	address_write(&one, shown);
	MUST(address_read(str_of(shown), &two));
	MUST(one.is_v6 == two.is_v6 && !memcmp(one.at, two.at, sizeof(one.at)));
	MUST(address_is_global(&one) == address_is_global(&two));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes, len};
	struct address here = {.at = {127, 0, 0, 1}}, found;

	try_address(text);
	if (!len)
		return 0;
	if (address_list_is_valid(text) && !memchr(bytes, ',', len) && !memchr(bytes, '.', len))
		MUST(!address_is_listed(text, &here, 443));
	(void)address_is_listed(text, &here, 443);
	if (address_of_name(text, STR("a"), &found))
		MUST(memchr(bytes, '=', len) &&
		     (memchr(bytes, 'a', len) || memchr(bytes, 'A', len)));
	(void)address_names_are_valid(text);
	return 0;
}
