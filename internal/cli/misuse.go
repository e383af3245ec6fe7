package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"moldau/internal/config"
)

// usage makes a mistake in the arguments an exitUsage, and shows those that a command wants.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil {
			return nil
		}
		if cmd.Name() != cmd.Use {
			err = fmt.Errorf("%w: %s", err, cmd.UseLine())
		}
		return &failure{exitUsage, err}
	}
}

// wrongFlag makes a mistake in the flags an exitUsage, and says which was probably meant, or what its value should be.
func wrongFlag(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return &failure{exitUsage, wrongValue(invalid)}
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		name := unknown.GetSpecifiedName()
		if whole := unknown.GetSpecifiedShortnames(); len(whole) > 1 { // -list is five flags of one letter to the parser
			name = whole
		}
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if near, ok := config.Closest(name, slices.Values(names)); ok {
			err = fmt.Errorf("%w; did you mean --%s?", err, near)
		}
	}
	return &failure{exitUsage, err}
}

// wrongValue says what a flag wants, in place of what Go's parser of numbers says.
func wrongValue(invalid *pflag.InvalidValueError) error {
	flag := invalid.GetFlag()
	want := invalid.Unwrap()
	var number *strconv.NumError
	switch {
	case !errors.As(want, &number):
	case errors.Is(number, strconv.ErrRange):
		want = errors.New("that number is out of range")
	case flag.Value.Type() == "bool":
		want = errors.New("want true or false")
	case strings.HasPrefix(flag.Value.Type(), "float"):
		want = errors.New("want a number")
	default:
		want = errors.New("want a whole number")
	}
	return fmt.Errorf("--%s %s: %w", flag.Name, invalid.GetValue(), want)
}

// unknownCommand is the mistake of arguments whose first word is none of a command's own commands. It may show up as a flag that is not the
// program's own, or as an argument too many.
func unknownCommand(of *cobra.Command, args []string) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return nil
	}
	var names []string
	for _, cmd := range of.Commands() {
		names = append(names, cmd.Name())
	}
	err := fmt.Errorf("unknown command %q", args[0])
	if near, ok := config.Closest(args[0], slices.Values(names)); ok {
		err = fmt.Errorf("%w; did you mean %s?", err, near)
	}
	return &failure{exitUsage, err}
}

// checkOwn has cobra's own commands refuse what does not exist: help a command, completion a shell.
func checkOwn(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				cmd, rest, err := root.Find(args)
				if err != nil {
					return err
				}
				return unknownCommand(cmd, rest)
			}
		case "completion":
			cmd.Example = "  source <(moldau completion bash)\n  moldau completion zsh > \"${fpath[1]}/_moldau\""
			cmd.Args, cmd.RunE = nil, func(cmd *cobra.Command, args []string) error {
				if err := unknownCommand(cmd, args); err != nil {
					return err
				}
				return &failure{exitUsage, errors.New("want bash, zsh, fish or powershell")}
			}
		}
	}
}
