package main

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/npamp/disco/record"
)

// filterFlags are the filters of query and watch (§6.1).
type filterFlags struct {
	kinds, protocols []string
	prefix           string
}

func (f *filterFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.kinds, "kind", nil, "records of this `kind` alone, by name or number; may be repeated")
	cmd.Flags().StringSliceVar(&f.protocols, "protocol", nil, "records of this `protocol` alone, by name or number; may be repeated")
	cmd.Flags().StringVar(&f.prefix, "prefix", "", "tools and agents whose name starts with this `text`")
}

func (f *filterFlags) filter(cmd *cobra.Command) (record.Filter, error) {
	var out record.Filter
	for _, s := range f.kinds {
		n, err := numberOf(s, kindNames(), "--kind")
		if err != nil {
			return out, err
		}
		out.Kinds = append(out.Kinds, record.Kind(n))
	}
	for _, s := range f.protocols {
		n, err := numberOf(s, protocolNames(), "--protocol")
		if err != nil {
			return out, err
		}
		out.ProtocolIDs = append(out.ProtocolIDs, n)
	}
	out.NamePrefix, out.HasPrefix = f.prefix, cmd.Flags().Changed("prefix")
	if !utf8.ValidString(f.prefix) {
		return out, usagef("--prefix is not valid UTF-8")
	}
	return out, nil
}

// numberOf reads a number, or one of names in any case.
func numberOf(s string, names map[string]uint64, what string) (uint64, error) {
	if n, ok := names[strings.ToLower(s)]; ok {
		return n, nil
	}
	n, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return 0, usagef("%s %q is neither a number nor one of %s", what, s, strings.Join(sortedKeys(names), ", "))
	}
	return n, nil
}
