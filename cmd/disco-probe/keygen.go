package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/npamp/disco/frame/keys"
)

func (a *app) keygenCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "keygen [FILE]",
		Short: "Make an Ed25519 identity",
		Long: `keygen makes an Ed25519 identity and writes its private key, PKCS#8 in PEM, to
FILE with mode 0600, never over a file that exists, and its public key and
PeerHandle to standard output. Without FILE the private key goes to standard
output and the other two to standard error.`,
		Args: cobra.MaximumNArgs(1),
		RunE: a.do(func(_ context.Context, args []string) error {
			pub, priv, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				return err
			}
			block, err := encodeIdentity(priv)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				a.note("identity %x", []byte(pub))
				a.note("handle %s", keys.PeerHandle(pub))
				_, err := a.out.Write(block)
				return err
			}
			if err := writeIdentity(args[0], block); err != nil {
				return err
			}
			if a.format.json() {
				return a.out.json(versioned(field{"identity", octets(pub)}, field{"handle", keys.PeerHandle(pub)}))
			}
			return a.out.text(fmt.Sprintf("identity %x", []byte(pub)), "handle "+keys.PeerHandle(pub))
		}),
	}
}

const pemType = "PRIVATE KEY"

func encodeIdentity(key ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}), nil
}

// writeIdentity makes the file, which must not exist. A file that could not be
// written whole is removed.
func writeIdentity(name string, block []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return failf(exitLocal, "%s exists and is left as it is", name)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(block)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

// readIdentity reads a file that keygen wrote, or any PKCS#8 Ed25519 key in PEM.
func readIdentity(name string) (ed25519.PrivateKey, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, &failure{exit: exitUsage, err: err}
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != pemType {
		return nil, usagef("%s: no %q block in PEM", name, pemType)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, usagef("%s: %w", name, err)
	}
	priv, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, usagef("%s: a key of type %T, want Ed25519", name, key)
	}
	return priv, nil
}
